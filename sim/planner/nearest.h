// What to change if no layout is possible, or none fits.
//
// Pure functions, of one thread, which start others where they say how many.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "sim/planner/search.h"

namespace pipesim {

// A question's space, narrowed as the caller has it; nothing where that leaves none.
using SpaceOf = std::function<std::optional<PlanSpace>(const PlanQuestion&)>;

// Whether any layout breaks no rule.
bool is_possible(const PlanSpace& space);

// For which some layout is possible, all else being the same; absent: none up to twice as many.
struct NearestPossible {
  std::optional<int> fewer_devices, more_devices;
  std::optional<std::int64_t> smaller_batch, larger_batch;
};
NearestPossible nearest_possible(const PlanQuestion& question, const SpaceOf& space_of);

// With which something fits, all else being the same.
struct NearestFitting {
  std::optional<PlanOutcome> smallest;  // of all possible layouts
  std::optional<int> devices;           // doubled until something fits, at most three times
};
NearestFitting nearest_fitting(const PlanQuestion& question, std::int64_t memory_cap_bytes,
                               const SpaceOf& space_of, int threads);

}  // namespace pipesim
