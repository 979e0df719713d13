// The fast way to evaluate a schedule, where transfers are asynchronous and take
// their latency and no more: each action is visited once, no event is queued.
//
// Depends on its arguments alone; calls share nothing; any thread.
#pragma once

#include "sim/cost/costs.h"
#include "sim/engine/jitter.h"
#include "sim/schedule/schedule.h"
#include "traces/metrics.h"

namespace pipesim {

// `program` is of so many iterations, as unroll() makes one. Expects that no stage sends
// bytes to another rank. Throws where it deadlocks, with the wait-for cycle.
Metrics evaluate_directly(const Schedule& program, const Costs& costs, int iterations,
                          const Jitter* jitter, const SpanSink& sink);

}  // namespace pipesim
