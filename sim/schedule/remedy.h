// What runs instead of a family's order that deadlocks: found by trying.
#pragma once

#include "sim/schedule/family.h"

namespace pipesim {

// Throws, as an input error, where the family's schedule of this shape deadlocks whatever the
// transport: with the cycle, and with the nearest groups, numbers of microbatches or placement
// that run. Looks only where ranks go through microbatches in rounds that may be uneven, or
// where stages are not where the family has them, and so costs others nothing.
void check_runs(const Family& family, const Shape& shape, const Schedule& schedule);

}  // namespace pipesim
