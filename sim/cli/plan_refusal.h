// Why there is no plan, and the nearest question that has one.
#pragma once

#include "sim/plan/nearest.h"

namespace pipesim::cli {

// Throws: which rule excludes how many of a space's layouts, and what to change. Expects that none
// fits, of all that there are.
[[noreturn]] void refuse_plan(const PlanSpace& space, const PlanCounts& counts,
                              const PlanSearch& how, const PlanLimits& limits,
                              const SpaceOf& space_of);

}  // namespace pipesim::cli
