// Iterations one after the other, as one program. A pass, a pure function.
#pragma once

#include "sim/schedule/schedule.h"
#include "traces/accumulation.h"
#include "traces/saves.h"

namespace pipesim {

// Each list so many times over, and each dependency within its iteration. Microbatches are counted
// through: the k-th of iteration i is i x microbatches + k. No rank waits for another between
// iterations, unless an action does. In iterations that don't step, empty cells stand in place of
// what is of the step, and in those that don't save, of a SAVE. Throws where the microbatches are
// more than can be numbered.
Schedule unroll(const Schedule& program, int iterations, const Accumulation& accumulation = {},
                const Saves& saves = {});

}  // namespace pipesim
