// Several iterations, one after the other, as one program. A pass, a pure function.
#pragma once

#include "sim/schedule/schedule.h"
#include "traces/accumulation.h"
#include "traces/saves.h"

namespace pipesim {

// Repeats each list for every iteration, and each dependency within its iteration. Microbatches are
// numbered across iterations: the k-th of iteration i is i x microbatches + k. No rank waits for
// another between iterations, unless an action does. Iterations that don't step have empty cells in
// place of the step's actions, and those that don't save in place of a SAVE. Throws if there are
// more microbatches than can be numbered.
Schedule unroll(const Schedule& program, int iterations, const Accumulation& accumulation = {},
                const Saves& saves = {});

}  // namespace pipesim
