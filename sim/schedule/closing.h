// What ends an iteration, in the lists: the reduction of each stage's gradients and each
// rank's optimizer step. A pass, pure functions from lists to lists, by which simulator and
// executor do the same.
#pragma once

#include <span>
#include <vector>

#include "sim/schedule/schedule.h"

namespace pipesim {

// What a rank does at the end where its list does not say when.
struct Closing {
  bool reduces = false;
  bool steps = false;
};

// The list of a rank that has these stages, and behind all that it does a REDUCE_GRAD of each
// of them that the list has none of, where it reduces, and an OPTIMIZER, of the first stage,
// where it steps and the list has none.
std::vector<Action> with_closing(std::span<const Action> list, const std::vector<int>& stages,
                                 const Closing& closing);

// The same of all ranks.
Schedule with_closing(const Schedule& schedule, const std::vector<Closing>& closing);

}  // namespace pipesim
