// Questions next to the one asked: if no layout is possible, none fits, or a slightly different
// batch would do better.
//
// Pure functions, for one thread, which start others where they say how many.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "sim/plan/search.h"

namespace pipesim {

// A question's space, narrowed as the caller has it; nothing where that leaves none.
using SpaceOf = std::function<std::optional<PlanSpace>(const PlanQuestion&)>;

// Whether any layout breaks no rule.
bool is_possible(const PlanSpace& space, const PlanLimits& limits = {});

// For which some layout is possible, all else being the same; absent: none up to twice as many, or
// none while there was time.
struct NearestPossible {
  std::optional<int> fewer_devices, more_devices;
  std::optional<std::int64_t> smaller_batch, larger_batch;
};
NearestPossible nearest_possible(const PlanQuestion& question, const SpaceOf& space_of,
                                 const PlanLimits& limits = {});

// With which something fits, all else being the same.
struct NearestFitting {
  std::optional<PlanOutcome> smallest;  // of all possible layouts
  std::optional<int> devices;           // doubled until something fits, at most three times
};
NearestFitting nearest_fitting(const PlanQuestion& question, std::int64_t memory_cap_bytes,
                               const SpaceOf& space_of, const PlanLimits& limits);

// A global batch next to the one asked for that more replicas can share evenly.
struct NearbyBatch {
  std::int64_t sequences = 0;
  PlanOutcome best;  // with its layers split anew, as in a finalist
  int data_parallel = 1;
  double gain = 0;  // of time per sequence, as a fraction of that asked for
};
// Of those at most 5 % away, the multiple of the largest power of two, if it gains 2 % on `best`, a
// finalist's outcome.
std::optional<NearbyBatch> nearby_batch(const PlanQuestion& question, const PlanOutcome& best,
                                        const PlanSearch& how, const SpaceOf& space_of,
                                        const PlanLimits& limits);

}  // namespace pipesim
