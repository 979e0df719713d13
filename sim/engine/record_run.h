// A prediction as a recorded run: what a trace of it is written from, and would be read as.
#pragma once

#include "sim/engine/simulate.h"
#include "traces/recorded_run.h"

namespace pipesim {

// simulate() with all spans kept. Has no memory samples: they follow from the costs.
RecordedRun record_run(const Schedule& schedule, const Costs& costs,
                       const SimulationOptions& options = {});

}  // namespace pipesim
