#include "sim/engine/save_effect.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace pipesim {
namespace {

// When a checkpoint began and ended on a rank.
struct SaveTime {
  std::int64_t start_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = 0;
};

std::vector<SaveTime> times_of_one_save(const Schedule& schedule, const Costs& costs,
                                        SimulationOptions options) {
  std::vector<SaveTime> times(static_cast<std::size_t>(schedule.ranks()));
  options.sink = [&](const Span& span) {
    if (span.action.kind != Kind::SAVE) return;
    SaveTime& own = times[static_cast<std::size_t>(span.rank)];
    own.start_ns = std::min(own.start_ns, span.start_ns);
    own.end_ns = std::max(own.end_ns, span.end_ns);
  };
  simulate(schedule, costs, options);
  return times;
}

}  // namespace

SaveEffect save_effect(const Schedule& schedule, const Costs& costs,
                       const SimulationOptions& options) {
  SaveEffect effect;
  effect.saves = options.saves;
  effect.bytes = costs.save->total_bytes();
  SimulationOptions with = options;
  with.sink = nullptr;
  const int passes = options.accumulation.passes;
  const int period = options.saves.every > passes ? 2 * passes : passes;
  with.saves.every = with.iterations = period;
  const std::vector<SaveTime> times = times_of_one_save(schedule, costs, with);
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t longest_ns = 0;  // the longest time that a rank is not ready for the next one
  for (const SaveTime& own : times) {
    first_ns = std::min(first_ns, own.start_ns);
    effect.saved_ns = std::max(effect.saved_ns, own.end_ns);
    longest_ns = std::max(longest_ns, own.end_ns - own.start_ns);
  }
  effect.saved_ns -= first_ns;
  // Nor is the storage, for any order in which ranks reach it.
  std::int64_t storage_ns = 0;
  for (const std::int64_t bytes : costs.save->bytes) storage_ns += costs.save->storage_ns(bytes);
  longest_ns = std::max(longest_ns, storage_ns);

  with.iterations = 2 * period;
  SimulationOptions without = with;
  without.saves = {};
  const auto second_period_ns = [&](const Costs& own, const SimulationOptions& how) {
    const std::vector<std::int64_t> ends = simulate(schedule, own, how).iteration_ends_ns;
    return ends.back() - ends[static_cast<std::size_t>(period) - 1];
  };
  Costs free = costs;
  if (options.saves.beside) {
    free.save->bytes_per_second.reset();
    free.save->sync_ns = free.save->publish_ns = 0;
  }
  const std::int64_t plain_ns = second_period_ns(costs, without);
  effect.stall_ns = second_period_ns(free, with) - plain_ns;
  const auto mean_ns = static_cast<long double>(plain_ns) / period;
  const auto iterations = static_cast<long double>(options.saves.every);
  if (options.saves.beside) {
    const long double wait_ns = static_cast<long double>(longest_ns) - mean_ns * iterations;
    effect.keeps_up = wait_ns <= static_cast<long double>(effect.stall_ns);
    if (!effect.keeps_up) effect.stall_ns = std::llround(wait_ns);
  }
  effect.iteration_ns = std::llround(mean_ns);
  effect.mean_iteration_ns =
      std::llround(mean_ns + static_cast<long double>(effect.stall_ns) / iterations);
  return effect;
}

}  // namespace pipesim
