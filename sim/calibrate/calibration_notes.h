// What makes calibrated costs doubtful, and what to do about it.
//
// Pure functions; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "traces/recorded_run.h"

namespace pipesim {

// Sentences, none if nothing is wrong: that other processes used the processors of a run; that one
// of the layers of a kind ("block 3", "block 4") takes more or less time than the median of all, by
// more than both its own samples and theirs vary from the 10th to the 90th percentile.
std::vector<std::string> doubts_about(const CostsFile& costs, std::span<const RecordedRun> runs);

}  // namespace pipesim
