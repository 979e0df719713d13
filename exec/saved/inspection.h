// The contents of a folder of checkpoints, and whether they are complete.
// Read-only. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/reader.h"
#include "exec/saved/checkpoint_facts.h"

namespace pipesim::exec {

struct CheckpointSummary {
  FoundCheckpoint found;
  CheckpointFacts facts;
  bool is_latest = false;  // `latest` names it

  std::string name() const;  // of its folder
  std::int64_t bytes() const;
};
struct CheckpointList {
  std::vector<CheckpointSummary> by_age;  // the newest first, those with complete manifests
  std::vector<std::string> damaged;       // what is wrong with the others
};
// Throws an input error if the folder has none. Does not read the files of checkpoints.
CheckpointList list_checkpoints(const std::string& folder);

// The one of that iteration, or the newest. Throws an input error if there is none.
const CheckpointSummary& choose_checkpoint(const CheckpointList& list, const std::string& folder,
                                           std::optional<std::int64_t> iteration);

// The numbers of a layer, or of another prefix of keys.
struct LayerNumbers {
  std::string name;        // "block 3", "table 0", "dense"
  std::int64_t index = 0;  // of a layer or a table
  std::int64_t parameters = 0;
  std::int64_t weights = 0, moments = 0, gradients = 0;

  std::int64_t total() const { return weights + moments + gradients; }
};
// In the order of the model. Throws an input error if anything is wrong with its files.
std::vector<LayerNumbers> numbers_by_layer(const CheckpointSummary& checkpoint);

// Reads all of it; returns what is wrong with it, if anything: a damaged file, or an incomplete
// array of its model.
std::optional<std::string> find_fault(const CheckpointSummary& checkpoint);

// The one of that iteration, or the newest complete one; calls `warn` for each that is skipped,
// with the reason. Throws an input error if there is none.
CheckpointSummary find_complete_checkpoint(const std::string& folder,
                                           std::optional<std::int64_t> iteration,
                                           const std::function<void(const std::string&)>& warn);

}  // namespace pipesim::exec
