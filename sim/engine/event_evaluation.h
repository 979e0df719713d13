// Evaluates a schedule on the event engine: transfers that meet, wait in
// streams, share links and fill buffers.
//
// Depends on its arguments alone; calls share nothing; any thread.
#pragma once

#include "sim/cost/costs.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/schedule.h"
#include "traces/metrics.h"

namespace pipesim {

// `program` is of as many iterations as the options say, as unroll() makes one; a compute
// schedule where transfers are asynchronous. Throws where it deadlocks, with the wait-for cycle.
Metrics evaluate_by_events(const Schedule& program, const Costs& costs,
                           const SimulationOptions& options);

}  // namespace pipesim
