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

// All of a folder's, and what one holds. Lines of 80 columns at most, but for names and what is
// wrong.
std::string checkpoint_text(const CheckpointList& list, const CheckpointSummary& one,
                            const ShownNumbers& numbers);
std::string checkpoint_json(const CheckpointList& list, const CheckpointSummary& one,
                            const ShownNumbers& numbers);

// "complete, 2 files, 19.2 MiB".
std::string completeness(const CheckpointSummary& checkpoint);

}  // namespace pipesim::exec
