// The values that are tried on each axis of a plan, unless others are asked for.
//
// Pure functions; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/plan/space.h"

namespace pipesim {

// Ascending.
template <typename Number>
std::vector<Number> divisors_up_to(std::int64_t number, std::int64_t most) {
  std::vector<Number> all;
  for (std::int64_t n = 1; n * n <= number; ++n) {
    if (number % n != 0) continue;
    if (n <= most) all.push_back(static_cast<Number>(n));
    if (n * n != number && number / n <= most) all.push_back(static_cast<Number>(number / n));
  }
  std::ranges::sort(all);
  return all;
}

// All sets of a model's parts, and the whole block.
std::vector<Recompute> plan_recomputes(const Model& model);
// Every family but the naive one, which has no pipeline; those that take any number of chunks
// with several.
std::vector<PlanSchedule> plan_schedules(std::int64_t blocks);
std::vector<PlanReplicas> plan_replicas();
// With so many tensor- and context-parallel ranks, all ways to spread a model's experts.
std::vector<PlanSplit> plan_splits(const Model& model, const PlanSplit& dense);

}  // namespace pipesim
