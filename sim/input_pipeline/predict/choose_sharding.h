// A plan that says who has which table, by what an iteration is simulated to take.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/input_pipeline/sharding.h"

namespace pipesim {

// How good a plan is: one that fits into memory before one that doesn't, then the faster one, then
// the one whose fullest rank holds less.
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

// Starts from default_sharding() and from every table by rows, and changes one table at a time,
// the largest first: whole on one of the ranks that have the fewest bytes of others, by rows, by
// columns over all ranks or those of a node, a copy on each, by rows within a node. A change stays
// where it makes the plan better; it ends where a pass over all tables changes nothing. What it
// finds is no worse than any plan that differs from it in one table so, and may be worse than the
// best of all. `evaluate` is a pure function.
PlanChoice choose_sharding(const RecommendationModel& model, int ranks, int ranks_per_node,
                           const EvaluatePlan& evaluate);

}  // namespace pipesim
