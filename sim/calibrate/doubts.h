// What makes costs doubtful that were calibrated, and what to do about it.
//
// Pure functions; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "traces/recorded_run.h"

namespace pipesim {

// Sentences, none where nothing is wrong: that others had the processors of a run; that of layers
// of one kind ("block 3", "block 4") one takes longer or less long than the median of all, by
// more than both its own samples and theirs vary by, from the 10th to the 90th percentile.
std::vector<std::string> doubts_about(const CostsFile& costs, std::span<const RecordedRun> runs);

}  // namespace pipesim
