// Passes over schedules: pure functions from schedule to schedule.
#pragma once

#include <cstdint>

#include "sim/schedule/schedule.h"

namespace pipesim {

// Inserts SEND and RECV into a compute schedule, as PyTorch's runtime does:
// ranks are visited in order, again and again, at most one cell a rank a
// turn, an empty cell taking its rank's turn; a cell that is ready appends
// itself, then its SEND, then the matching RECV to the receiver's list. F, I
// and B are ready once their RECV stands in their list or the neighbour's
// result is local; what has dependencies, once all that it awaits stands in a list. Each rank's
// list is thus a projection of one total order, which no transport deadlocks on. Throws where the
// schedule itself deadlocks, and for one that already has transfers.
Schedule lower(const Schedule& compute);

// Replaces every I that its own W follows, empty cells aside, by B. Drops
// empty cells. Never done implicitly. Throws for a schedule with dependencies.
Schedule merge_backward(const Schedule& schedule);

// The number of unit steps a program without dependencies takes when every action takes one step,
// every rank does one action a step, and a RECV may share its SEND's step.
// Throws where it deadlocks.
std::int64_t count_unit_steps(const Schedule& program);

}  // namespace pipesim
