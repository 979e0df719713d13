// Evaluates a schedule on the event engine: transfers that meet, wait in
// streams, share links and fill buffers.
//
// Depends only on its arguments; calls share nothing; any thread.
#pragma once

#include "sim/engine/prepare.h"
#include "sim/schedule/schedule.h"
#include "traces/metrics.h"

namespace pipesim {

// `program` has as many iterations as the options say, as unroll() makes it; a compute
// schedule if transfers are asynchronous. Throws if it deadlocks, with the wait-for cycle.
Metrics evaluate_by_events(const Schedule& program, const Prepared& prepared);

}  // namespace pipesim
