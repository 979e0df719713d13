// The newest complete checkpoint, from which a training resumes.
// All ranks search together, each checking some of the files.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/reader.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

// Folders; empty if there is none.
struct CheckpointFolders {
  std::string resumed;
  std::string saved;
};

struct NewestCheckpoint {
  FoundCheckpoint found;
  std::shared_ptr<const CheckpointReader> reader;
};

// `check` throws for a checkpoint of another training, before its files are read. Rank 0 calls
// `warn` for each that is skipped, with the reason. Returns nothing if there is none and the
// training saves to the same folder: then it starts from scratch. Otherwise that is an input error,
// and so is a folder in which none is complete.
std::optional<NewestCheckpoint> find_newest_checkpoint(
    const CheckpointFolders& folders, Transport& transport,
    const std::function<void(const FoundCheckpoint&)>& check,
    const std::function<void(const std::string&)>& warn);

// Called by all ranks: throws an input error if the folder to save to has checkpoints that a
// training starting at `start`, or from scratch, would not resume from.
void check_saved_folder(const CheckpointFolders& folders, Transport& transport,
                        std::optional<std::int64_t> start);

}  // namespace pipesim::exec
