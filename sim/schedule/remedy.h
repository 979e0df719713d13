// What to run instead of a family's order that deadlocks, found by trial.
#pragma once

#include "sim/schedule/family.h"

namespace pipesim {

// Throws an input error if the family's schedule of this shape deadlocks with any transport; it
// names the cycle and the nearest groups, numbers of microbatches or placement that run. Looks only
// if ranks go through microbatches in rounds that may be uneven, or if stages are not where the
// family puts them; otherwise it costs nothing.
void check_runs(const Family& family, const Shape& shape, const Schedule& schedule);

}  // namespace pipesim
