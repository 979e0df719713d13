// Passes over schedules: pure functions from schedule to schedule.
#pragma once

#include <cstdint>

#include "sim/schedule/schedule.h"

namespace pipesim {

// Inserts SEND and RECV into a compute schedule, as PyTorch's runtime does:
// ranks are visited in order, repeatedly, with at most one cell per rank and turn, which an empty
// cell takes, too; a cell that is ready appends itself, then its SEND, then the matching RECV to
// the receiver's list. F, I and B are ready once their RECV is in their list or the neighbour's
// result is local; an action with dependencies, once all that it awaits is in a list. Each rank's
// list is thus a projection of one total order, which no transport deadlocks on. Throws if the
// schedule itself deadlocks, and for one that already has transfers.
Schedule lower(const Schedule& compute);

// Replaces every I followed by its own W, ignoring empty cells, by B. Drops empty cells. Never done
// implicitly. Throws for a schedule with dependencies.
Schedule merge_backward(const Schedule& schedule);

// The number of unit steps a program without dependencies takes when every action takes one step,
// every rank does one action per step, and a RECV may share its SEND's step. Throws if it
// deadlocks.
std::int64_t count_unit_steps(const Schedule& program);

}  // namespace pipesim
