// The output of `pipeexec checkpoint show`. Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "exec/saved/inspection.h"

namespace pipesim::exec {

// One checkpoint: its numbers, or why they can't be read.
struct ShownNumbers {
  std::vector<LayerNumbers> layers;
  std::string fault;
};

// All checkpoints of a folder, and the contents of one. Lines of at most 80 columns, except for
// names and faults.
std::string checkpoint_text(const CheckpointList& list, const CheckpointSummary& one,
                            const ShownNumbers& numbers);
std::string checkpoint_json(const CheckpointList& list, const CheckpointSummary& one,
                            const ShownNumbers& numbers);

// "complete, 2 files, 19.2 MiB".
std::string completeness(const CheckpointSummary& checkpoint);

}  // namespace pipesim::exec
