// Costs from recorded runs, for predicting other schedules, layouts and numbers of microbatches on
// the same machine.
//
// Costs are by layer if the runs record layers, else by stage; compute_times.h, transfer_times.h
// and memory_bytes.h say how each number is estimated. Reduction and optimizer are timed from when
// all ranks have finished what comes before: the time includes the exchange of norms and gradients,
// but no waiting for slower ranks. Calls share nothing; any thread.
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
  std::vector<std::string> doubts;          // see calibration_notes.h
  std::int64_t transfers = 0;               // recorded
  std::vector<std::int64_t> message_sizes;  // of those that count
  std::int64_t checkpoints = 0;             // recorded
};

// Several runs give more samples of the same costs: throws an input error that names two of them if
// their model, layers, ranks or device differ, or, with costs by stage, their placement. Throws a
// work error if something needed was not measured. With `launches` an action takes as long as it
// did with its late launch, of which predictions have none.
Calibration calibrate(std::span<const RecordedRun> runs, bool launches = true);

}  // namespace pipesim
