// The fast evaluation of a schedule, for asynchronous transfers that do not
// share links: each action is visited once, no event is queued.
//
// Depends only on its arguments; calls share nothing; any thread.
#pragma once

#include "sim/engine/prepare.h"
#include "sim/schedule/schedule.h"
#include "traces/metrics.h"

namespace pipesim {

// `program` has all iterations, as unroll() makes it. A transfer takes as long as it does alone: if
// transfers meet on a link, the times are lower bounds of the event engine's, and message buffers
// are not counted. Throws if it deadlocks, with the wait-for cycle.
Metrics evaluate_directly(const Schedule& program, const Prepared& prepared);

}  // namespace pipesim
