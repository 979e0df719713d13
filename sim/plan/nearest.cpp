#include "sim/plan/nearest.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "sim/plan/finalists.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// The first that will do, before the last.
template <typename Number, typename Test>
std::optional<Number> first_that(Number first, Number last, Number step, const PlanLimits& limits,
                                 const Test& will_do) {
  for (Number one = first; one != last && !limits.are_over(); one += step) {
    if (will_do(one)) return one;
  }
  return std::nullopt;
}

std::optional<PlanOutcome> smallest_of(const std::optional<PlanSpace>& space,
                                       std::int64_t cap_bytes, const PlanLimits& limits) {
  if (!space) return std::nullopt;
  PlanSearch how;
  how.memory_cap_bytes = cap_bytes;
  how.top = 1;
  how.aim = PlanAim::memory;
  const PlanResult result = LayoutPlanner(*space, limits).best(how);
  if (result.best.empty() || result.counts.not_reached > 0) return std::nullopt;
  return result.best.front();
}

// A multiple of as large a power of two as one at most 5 % away is.
std::int64_t rounded_nearby(std::int64_t sequences) {
  constexpr std::int64_t part = 20;
  std::int64_t best = sequences;
  for (std::int64_t power = 2; power <= sequences; power *= 2) {
    const std::int64_t rounded = (sequences + power / 2) / power * power;
    if (std::abs(rounded - sequences) * part <= sequences) best = rounded;
  }
  return best;
}

}  // namespace

bool is_possible(const PlanSpace& space, const PlanLimits& limits) {
  const PlanAxes& axes = space.axes();
  for (std::int64_t first = 0; first < axes.size() && !limits.are_over();
       first += axes.cell_size()) {
    const PlanPoint cell = axes.at(first);
    if (space.broken_rule_of_cell(cell)) continue;
    const bool has_schedule = std::ranges::any_of(
        axes.schedules, [&](const PlanSchedule& one) { return !space.broken_rule(cell, one); });
    const bool has_replicas = std::ranges::any_of(
        axes.replicas, [&](const PlanReplicas& one) { return !space.broken_rule(cell, one); });
    if (has_schedule && has_replicas) return true;
  }
  return false;
}

NearestPossible nearest_possible(const PlanQuestion& question, const SpaceOf& space_of,
                                 const PlanLimits& limits) {
  NearestPossible nearest;
  const auto with_devices = [&](int devices) {
    PlanQuestion other = question;
    other.devices = devices;
    const auto space = space_of(other);
    return space && is_possible(*space, limits);
  };
  const auto with_batch = [&](std::int64_t batch) {
    PlanQuestion other = question;
    other.global_batch = batch;
    const auto space = space_of(other);
    return space && is_possible(*space, limits);
  };
  const int devices = question.devices;
  const std::int64_t batch = question.global_batch;
  nearest.fewer_devices = first_that(devices - 1, 0, -1, limits, with_devices);
  nearest.more_devices = first_that(devices + 1, 2 * devices + 1, 1, limits, with_devices);
  nearest.smaller_batch = first_that<std::int64_t>(batch - 1, 0, -1, limits, with_batch);
  nearest.larger_batch = first_that<std::int64_t>(batch + 1, 2 * batch + 1, 1, limits, with_batch);
  return nearest;
}

NearestFitting nearest_fitting(const PlanQuestion& question, std::int64_t memory_cap_bytes,
                               const SpaceOf& space_of, const PlanLimits& limits) {
  NearestFitting nearest;
  constexpr std::int64_t any_memory = std::numeric_limits<std::int64_t>::max();
  nearest.smallest = smallest_of(space_of(question), any_memory, limits);
  PlanQuestion larger = question;
  constexpr int doublings = 3;
  for (int i = 0; i < doublings && !nearest.devices && larger.devices <= max_count / 2; ++i) {
    larger.devices *= 2;
    if (smallest_of(space_of(larger), memory_cap_bytes, limits)) nearest.devices = larger.devices;
  }
  return nearest;
}

std::optional<NearbyBatch> nearby_batch(const PlanQuestion& question, const PlanOutcome& best,
                                        const PlanSearch& how, const SpaceOf& space_of,
                                        const PlanLimits& limits) {
  PlanQuestion other = question;
  other.global_batch = rounded_nearby(question.global_batch);
  if (other.global_batch == question.global_batch) return std::nullopt;
  const std::optional<PlanSpace> space = space_of(other);
  if (!space) return std::nullopt;
  PlanSearch search = how;
  search.aim = PlanAim::time;
  const PlanResult result = LayoutPlanner(*space, limits).best(search);
  if (result.best.empty() || result.counts.not_reached > 0) return std::nullopt;
  NearbyBatch nearby;
  nearby.sequences = other.global_batch;
  nearby.best = finalists(*space, result.best, search, limits).front().outcome;
  if (limits.are_over()) return std::nullopt;
  nearby.data_parallel = space->data_parallel(space->axes().at(nearby.best.index));
  const auto per_sequence = [](const PlanOutcome& one, std::int64_t sequences) {
    return static_cast<double>(one.time_ns) / static_cast<double>(sequences);
  };
  nearby.gain =
      1 - per_sequence(nearby.best, nearby.sequences) / per_sequence(best, question.global_batch);
  constexpr double min_gain = 0.02;
  return nearby.gain < min_gain ? std::nullopt : std::optional(nearby);
}

}  // namespace pipesim
