// Costs from recorded runs, so that other schedules, layouts and numbers of
// microbatches can be predicted as they would run there.
//
// By layer where runs record layers, else by stage; compute_times.h,
// transfer_times.h and memory_bytes.h say how each number is estimated.
// Measured from when all ranks are through with what comes before: the time of
// reduction and optimizer then has what exchanging norms and gradients takes,
// and no waiting for slower ranks. Calls share nothing; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "traces/recorded_run.h"

namespace pipesim {

struct Calibration {
  CostsFile costs;                          // with `calibration`; its name is empty
  std::vector<std::string> doubts;          // see doubts.h
  std::int64_t transfers = 0;               // recorded
  std::vector<std::int64_t> message_sizes;  // of those that count
  std::int64_t checkpoints = 0;             // recorded
};

// Several runs are more samples of the same: throws an input error that names
// two of them where their model, layers, ranks or device differ, or, where
// costs are by stage, their placement. Throws a work error where something
// needed was not measured.
// `launches`: actions take as long as they did with their late launches, of which predictions have
// none.
Calibration calibrate(std::span<const RecordedRun> runs, bool launches = true);

}  // namespace pipesim
