// The collectives of a schedule: which of its UNSHARD, RESHARD and REDUCE_GRAD
// actions have an effect, and which compute actions depend on them.
//
// - An UNSHARD gathers what is not gathered; a RESHARD releases what is. A stage
//   without one is never gathered.
// - A REDUCE_GRAD right after the action that produces the last of its gradients,
//   ignoring transfers, RESHARDs and empty cells, overlaps that action,
//   part by part. A stage without one is reduced, in iterations that step, after its rank's
//   last action except those that end its iteration.
//
// Plain functions of their arguments; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/schedule/schedule.h"
#include "traces/accumulation.h"

namespace pipesim {

struct Collective {
  static constexpr std::int64_t none = -1;

  Action action;  // with its number in its iteration
  std::int32_t rank = 0;
  std::int32_t iteration = 0;
  // In its rank's list; if it has none, that of the iteration's closing actions or the list's
  // length.
  std::size_t place = 0;
  // The first action of a cell in that list: for an UNSHARD, the one that waits for it; for a
  // REDUCE_GRAD, the one right before it.
  std::int64_t cell = none;
  // For a REDUCE_GRAD that holds gradients: the action that next produces some of its stage.
  std::int64_t held_cell = none;
  std::int64_t gather = none;  // for a RESHARD: the collective it releases
};

// Whether the schedule has any.
bool has_collectives(const Schedule& schedule, const Costs& costs);

// How many parts all of an iteration's exchanges have; at most as many, where some have no effect.
std::int64_t count_parts(const Schedule& schedule, const Costs& costs);

// For all iterations, as unroll() makes them, sorted by (rank, place). Throws if there
// are more than Costs::check() allows for.
std::vector<Collective> find_collectives(const Schedule& program, const Costs& costs,
                                         int iterations = 1, const Accumulation& accumulation = {});

}  // namespace pipesim
