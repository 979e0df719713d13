// The fast way to evaluate a schedule, where transfers are asynchronous and have their links to
// themselves: each action is visited once, no event is queued.
//
// Depends on its arguments alone; calls share nothing; any thread.
#pragma once

#include "sim/cost/costs.h"
#include "sim/engine/jitter.h"
#include "sim/schedule/schedule.h"
#include "traces/metrics.h"

namespace pipesim {

// `program` is of so many iterations, as unroll() makes one. A transfer takes what it takes alone:
// where transfers meet on a link, the times are those that events stay at or above, and buffers
// of messages are not counted. Throws where it deadlocks, with the wait-for cycle.
Metrics evaluate_directly(const Schedule& program, const Costs& costs, int iterations,
                          const Jitter* jitter, const SpanSink& sink);

}  // namespace pipesim
