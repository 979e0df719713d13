// Searches for a sharding plan by the simulated time of an iteration.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/input_pipeline/sharding.h"

namespace pipesim {

// The order of plans: those that fit into memory first, then the faster ones, then those whose
// fullest rank holds less.
struct PlanValue {
  std::int64_t excess_bytes = 0;  // of the rank that exceeds its memory most; 0: all fit
  std::int64_t iteration_ns = 0;
  std::int64_t peak_bytes = 0;  // of the fullest rank

  auto operator<=>(const PlanValue&) const = default;
};
using EvaluatePlan = std::function<PlanValue(const ShardingPlan&)>;

struct PlanChoice {
  ShardingPlan plan;
  PlanValue value;
  std::int64_t evaluated = 0;
};

// Starts from default_sharding() and from every table by rows, and changes one table at a time, the
// largest first: whole on one of the ranks that have the fewest bytes of others, by rows, by
// columns over all ranks or those of a node, a copy on each, by rows within a node. A change is
// kept if it improves the plan; the search ends when a pass over all tables changes nothing. So the
// result is a local optimum, not necessarily the best plan. `evaluate` must be a pure function.
PlanChoice choose_sharding(const RecommendationModel& model, int ranks, int ranks_per_node,
                           const EvaluatePlan& evaluate);

}  // namespace pipesim
