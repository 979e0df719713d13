// The closing actions of an iteration, in the lists: the reduction of each stage's gradients, the
// sum of the gradients of a matrix that two stages share, the norm of all, each rank's optimizer
// step, and its part of a checkpoint. A pass of pure functions from lists to lists, shared by
// simulator and executor.
#pragma once

#include <span>
#include <vector>

#include "sim/schedule/schedule.h"
#include "traces/accumulation.h"

namespace pipesim {

// No compute or transfer of a rank comes after one of these.
constexpr bool ends_iteration(Kind kind) {
  return is_blocking_collective(kind) || kind == Kind::OPTIMIZER || kind == Kind::SAVE;
}

// Whether an action occurs only in iterations that end with a step.
constexpr bool is_of_step(Kind kind, const Accumulation& accumulation) {
  return (ends_iteration(kind) && kind != Kind::SAVE) ||
         (kind == Kind::REDUCE_GRAD && !accumulation.reduces_each);
}

// Closing actions for ranks whose lists do not place them.
struct Closing {
  bool reduces = false;
  bool reduces_tied = false;
  bool finds_norm = false;
  bool steps = false;
  bool saves = false;

  bool any() const { return reduces || reduces_tied || finds_norm || steps || saves; }
};

// A rank's list with the closing actions that it lacks: a REDUCE_GRAD for each of its stages, or,
// if these have copies on other ranks, one for all, named by the rank's own stage, which adds up
// tied gradients, too; a REDUCE_TIED if the rank is in the group, a GRAD_NORM, an OPTIMIZER and a
// SAVE. They are added in this order, after everything else in the list and before those of them
// that it has already. The rank's own are named by its first stage, a REDUCE_TIED by the first
// stage that shares.
std::vector<Action> with_closing(std::span<const Action> list, int rank, const Placement& placement,
                                 const Closing& closing);

// The same for all ranks.
Schedule with_closing(const Schedule& schedule, const std::vector<Closing>& closing);

}  // namespace pipesim
