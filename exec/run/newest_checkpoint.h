// The newest checkpoint that is whole, which a training goes on from.
//
// All ranks look together, each at some of the files.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/reader.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

// Folders; empty where there is none.
struct CheckpointFolders {
  std::string resumed;
  std::string saved;
};

struct NewestCheckpoint {
  FoundCheckpoint found;
  std::shared_ptr<const CheckpointReader> reader;
};

// `check` throws on one of another training, before its files are read. Rank 0 is told by `warn`
// of each that is passed over, and why. Nothing where there is none and the training saves to the
// same folder: then it starts anew. Else that is an input error, and so is a folder in which none
// is whole.
std::optional<NewestCheckpoint> find_newest_checkpoint(
    const CheckpointFolders& folders, Transport& transport,
    const std::function<void(const FoundCheckpoint&)>& check,
    const std::function<void(const std::string&)>& warn);

// All ranks: an input error where the folder to save to has checkpoints that a training which
// starts there, or anew, would not go on from.
void check_saved_folder(const CheckpointFolders& folders, Transport& transport,
                        std::optional<std::int64_t> start);

}  // namespace pipesim::exec
