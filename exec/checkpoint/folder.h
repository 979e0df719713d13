// The folder of checkpoints, written so that a crash at any instant leaves a complete one.
//
//   DIR/iteration-00000020/   manifest.json, rank-0000.safetensors, rank-0001.safetensors, ...
//   DIR/latest                the name of the newest, for scripts
//   DIR/.incoming-00000030/   one being written
//   DIR/.removed-00000010/    one being removed
//
// Files are written and synced under the hidden name, the manifest last. Then checkpoints beyond
// the limit are removed, the folder gets its name, and `latest` points to it. A checkpoint is
// complete if it has a manifest and all files match it; one that lacks only its name counts, too.
// Rank 0 prepares and publishes; any rank writes its file, and any thread may call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/checkpoint/disk.h"
#include "exec/checkpoint/manifest.h"

namespace pipesim::exec {

// The contents and place of a training's checkpoints.
struct SavePlan {
  std::string folder;
  int every = 10;  // iterations, counted from the start of training, and after the last
  int keep = 2;
  bool beside = false;  // writes during the following iterations

  bool operator==(const SavePlan&) const = default;
};

struct FoundCheckpoint {
  std::string path;
  Manifest manifest;
  bool is_incoming = false;
};
struct FoundCheckpoints {
  std::vector<FoundCheckpoint> by_age;  // the newest first, those with complete manifests
  std::vector<std::string> damaged;     // what is wrong with the others, in the same order
};
// Read-only; does not read the files of checkpoints.
FoundCheckpoints find_checkpoints(const std::string& folder);

// The name of the checkpoint marked as the newest, if any.
std::optional<std::string> marked_checkpoint(const std::string& folder);

// Reads that file of a checkpoint; returns what is wrong with it, if anything.
std::optional<std::string> find_damage(const std::string& checkpoint, const CheckpointFile& file);

class CheckpointFolder {
 public:
  // Keeps so many checkpoints, at least 1.
  CheckpointFolder(Disk& disk, std::string path, int keep);

  const std::string& path() const { return path_; }
  // Call before the first save: makes the folder, finishes checkpoints that lack only their name,
  // removes unfinished ones. Throws an input error if the folder is not writable.
  void prepare();
  // A name for the file of a rank.
  static std::string file_of(int rank);
  // The folder to write a checkpoint's files in; creates it.
  std::string open(std::int64_t iteration);
  // Expects all files to be written and synced. Also removes checkpoints of later iterations, which
  // this training has abandoned.
  void publish(const Manifest& manifest);

 private:
  std::string incoming(std::int64_t iteration) const;
  void finish(std::int64_t iteration);
  void retire(std::int64_t iteration);
  void remove(const std::string& checkpoint);

  Disk& disk_;
  std::string path_;
  int keep_;
};

}  // namespace pipesim::exec
