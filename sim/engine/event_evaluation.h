// Evaluates a schedule on the event engine: transfers that meet, wait in
// streams, share links and fill buffers.
//
// Depends on its arguments alone; calls share nothing; any thread.
#pragma once

#include "sim/cost/costs.h"
#include "sim/engine/p2p.h"
#include "sim/schedule/schedule.h"
#include "traces/metrics.h"

namespace pipesim {

// Expects a program, or a compute schedule where transfers are asynchronous.
// Throws where it deadlocks, with the wait-for cycle.
Metrics evaluate_by_events(const Schedule& schedule, const Costs& costs, const Transfers& transfers,
                           const SpanSink& sink);

}  // namespace pipesim
