// What a folder of checkpoints holds, and whether it is whole.
//
// Only looks. One thread.
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
  bool is_latest = false;  // the folder's mark says so

  std::string name() const;  // within the folder
  std::int64_t bytes() const;
};
struct CheckpointList {
  std::vector<CheckpointSummary> by_age;  // the newest first, as far as their manifests are whole
  std::vector<std::string> damaged;       // of the others, what is wrong
};
// A folder without any is an input error. Files of checkpoints are not read.
CheckpointList list_checkpoints(const std::string& folder);

// Of that iteration, or the newest. None is an input error.
const CheckpointSummary& choose_checkpoint(const CheckpointList& list, const std::string& folder,
                                           std::optional<std::int64_t> iteration);

// The numbers of a layer, or of whatever else keys begin with.
struct LayerNumbers {
  std::string name;        // "block 3", "table 0", "dense"
  std::int64_t index = 0;  // of a layer or a table
  std::int64_t parameters = 0;
  std::int64_t weights = 0, moments = 0, gradients = 0;

  std::int64_t total() const { return weights + moments + gradients; }
};
// In the order of the model. What is wrong with its files is an input error.
std::vector<LayerNumbers> numbers_by_layer(const CheckpointSummary& checkpoint);

// Reads all of it: what is wrong with it, if anything. A file is damaged, or an array that its
// model has to have is incomplete.
std::optional<std::string> find_fault(const CheckpointSummary& checkpoint);

// That of the iteration, or the newest that is whole: `warn` is told of each that is passed over,
// and why. Where there is none, an input error.
CheckpointSummary find_whole_checkpoint(const std::string& folder,
                                        std::optional<std::int64_t> iteration,
                                        const std::function<void(const std::string&)>& warn);

}  // namespace pipesim::exec
