// When a sharded compute schedule does what, by going through its lists again and
// again: no events, no streams, no links. Shares only the vocabulary.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "sim/cost/costs.h"
#include "sim/schedule/schedule.h"

namespace pipesim::oracle {

// Start and end by (stage, kind, microbatch, or number of a collective).
using ReplicaTimes = std::map<std::tuple<int, Kind, int>, std::pair<std::int64_t, std::int64_t>>;

// Of F, I, W, B, UNSHARD and REDUCE_GRAD where transfers and collectives take their
// latency alone. Expects a schedule that does not deadlock.
ReplicaTimes replica_times(const Schedule& compute, const Costs& costs);

}  // namespace pipesim::oracle
