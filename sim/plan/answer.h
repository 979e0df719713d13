// What distinguishes the best layouts of a space, and the effect of memory.
//
// Plain values; each call is for one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/finalists.h"
#include "sim/plan/search.h"

namespace pipesim {

struct PlanAnswer {
  PlanResult result;
  std::vector<Finalist> top;  // of the best, in their order
  // The fastest that fit into parts of the memory, each faster than those before and larger; the
  // last is the best, unless nothing fits.
  std::vector<PlanOutcome> front;
  // The fastest that would fit into more, each faster than those before; the first of them faster
  // than the best.
  std::vector<PlanOutcome> with_more;
  bool is_whole = false;  // otherwise the time was over before all that was found
};

// `found`: what the planner found for `how`.
PlanAnswer answer_plan(LayoutPlanner& planner, const PlanSpace& space, PlanResult found,
                       const PlanSearch& how, const PlanLimits& limits);

}  // namespace pipesim
