// How an iteration's time varies if those of its actions do, and which ranks cause it.
//
// Simulates the schedule once a draw (sim/engine/jitter.h), by seeds 1, 2, ...: so the same
// question has the same answer. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/jitter.h"
#include "sim/engine/simulate.h"

namespace pipesim {

struct MakespanSpread {
  // The values that a half and 95 % of the draws do not exceed, by nearest rank.
  std::int64_t p50_ns = 0;
  std::int64_t p95_ns = 0;
  int seeds = 0;  // draws
  // Each rank's share of the makespans' variance; at least 0, and together 1. Jitter is put on rank
  // after rank, in an order drawn anew for each seed: the covariance of what a rank adds with the
  // makespan, of all of them; one below 0, which is chance, counts as 0. Empty where that would
  // take long, or nothing varies.
  std::vector<double> rank_shares;
};

struct SpreadQuestion {
  Variation variation;
  int seeds = 100;
};
inline constexpr int max_seeds = 100'000;

// `options` without jitter. `by_rank`: with shares, where they take no more than some seconds.
MakespanSpread find_spread(const Schedule& schedule, const Costs& costs,
                           const SimulationOptions& options, const SpreadQuestion& question,
                           bool by_rank);

}  // namespace pipesim
