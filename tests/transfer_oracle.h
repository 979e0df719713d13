// A second independent interpreter: programs whose transfers meet (blocking,
// fifo, edge-fifo) or are eager. Slow and obvious: it looks at the head of every
// stream again and again until nothing moves. It knows no bandwidth shared by
// transfers, and shares nothing with the evaluations but the vocabulary.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/cost/costs.h"
#include "sim/engine/p2p.h"
#include "sim/schedule/schedule.h"

namespace pipesim::oracle {

// Start and end of each F, I, W, B, and of each transfer by its SEND, from its
// start to its arrival.
using Times = std::map<std::tuple<int, Kind, int>, std::pair<std::int64_t, std::int64_t>>;

// Nothing where the program deadlocks.
std::optional<Times> run_with_transfers(const Schedule& program, const Costs& costs,
                                        const Transfers& transfers);

}  // namespace pipesim::oracle
