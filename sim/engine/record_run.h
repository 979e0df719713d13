// A prediction as a recorded run: the source of its trace, and the result of reading that.
#pragma once

#include "sim/engine/simulate.h"
#include "traces/recorded_run.h"

namespace pipesim {

// simulate() with all spans kept. Has no memory samples: they follow from the costs.
RecordedRun record_run(const Schedule& schedule, const Costs& costs,
                       const SimulationOptions& options = {});

}  // namespace pipesim
