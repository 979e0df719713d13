// Costs of an input pipeline from a recorded run of one.
//
// Of each rank and kind what its action and the host's call of it took, in the median over
// batches; the first batches, which find cold caches and set buffers up, are left out where there
// are at least twice as many. What a collective took counts from when the last rank had come. Costs
// are of as many ranks as the run, by kind and without links: other programs and numbers of
// batches can be predicted from them, other batch sizes and numbers of ranks can't. Pure; any
// thread.
#pragma once

#include <string>
#include <vector>

#include "sim/input_pipeline/input_costs.h"
#include "traces/input_pipeline/input_run.h"

namespace pipesim {

struct InputCalibration {
  InputCosts costs;
  std::vector<std::string> notes;  // what could not be told, for people
};
InputCalibration calibrate_input(const InputRun& run);

}  // namespace pipesim
