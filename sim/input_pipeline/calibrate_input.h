// Costs of an input pipeline from a recorded run of one.
// For each rank and kind, the median over batches of the action's time and of the host's call; the
// first batches, which find cold caches and set up buffers, are skipped if there are at least twice
// as many. A collective counts from when the last rank arrived. Costs are for as many ranks as the
// run, by kind and without links: other programs and numbers of batches can be predicted from them,
// other batch sizes and numbers of ranks can't. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "sim/input_pipeline/input_costs.h"
#include "traces/input_run.h"

namespace pipesim {

struct InputCalibration {
  InputCosts costs;
  std::vector<std::string> notes;  // what could not be determined, for display
};
InputCalibration calibrate_input(const InputRun& run);

}  // namespace pipesim
