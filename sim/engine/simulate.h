// Evaluates a schedule with costs: when does each action run?
//
// A schedule here is a compute schedule, whose results travel as soon as they
// exist, or a program with SEND and RECV in its lists. Each rank does its
// actions in order, each as early as its inputs allow, exactly to the
// nanosecond. Under asynchronous transfers a result leaves when its SEND is
// reached (at the end of its producer where none is listed) and arrives after
// the link's latency and the time its bytes occupy the link; neither end's
// device is held, and a RECV delays nothing. After its last action a rank
// reduces its gradients and steps its optimizer where the costs say so.
//
// The result depends on the arguments alone. Memory: O(stages x microbatches).
// Calls share nothing; any thread.
#pragma once

#include <string_view>

#include "sim/cost/costs.h"
#include "sim/schedule/schedule.h"
#include "traces/metrics.h"
#include "traces/timeline.h"

namespace pipesim {

// How results travel between ranks.
enum class P2p {
  async,  // from the moment they are sent, holding no device
};

std::string_view p2p_name(P2p mode);
// By that name, or an input error that lists the known ones.
P2p parse_p2p(std::string_view name);

struct SimulationOptions {
  P2p p2p = P2p::async;
  // Receives every span, compute and transfer, where it is given.
  SpanSink sink;
};

// Expects a schedule that find_fault() passes and costs that check() passes.
// Throws where the schedule deadlocks, with the wait-for cycle, and where two
// transfers would have to share a link.
Metrics simulate(const Schedule& schedule, const Costs& costs,
                 const SimulationOptions& options = {});

// The same with all spans, sorted by (start, rank).
Timeline record_timeline(const Schedule& schedule, const Costs& costs,
                         const SimulationOptions& options = {});

}  // namespace pipesim
