#include "sim/plan/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/schedule/remedy.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

Candidate try_one(const Family& family, ScheduleRequest request, const Trial& trial) {
  Candidate candidate;
  candidate.schedule = family.name;
  candidate.microbatches = request.microbatches;
  if (!family.many_chunks) request.chunks.reset();
  if (!family.takes_group) {
    request.group.reset();
    request.overlap_experts = false;
  }
  candidate.chunks = request.chunks.value_or(family.default_chunks);
  try {
    check_size(family, request, trial.needed);
    const Shape shape = resolve_shape(family, request);
    Schedule schedule = generate(family, shape);
    check_runs(family, shape, schedule);
    if (trial.complete) schedule = trial.complete(std::move(schedule));
    SimulationOptions options;
    options.transfers = trial.transfers;
    const Costs costs = trial.costs(schedule);
    candidate.prediction = predict(schedule, costs, &family, shape, options);
    if (trial.spread)
      candidate.spread = find_spread(schedule, costs, options, *trial.spread, false);
  } catch (const Error& error) {
    candidate.left_out = error.what();
    return candidate;
  }
  const double divisor = trial.by_layer ? 1 : candidate.chunks;
  const std::int64_t bytes = candidate.prediction.peak_memory_bytes();
  const std::int64_t chunks = candidate.prediction.metrics.peak_activation_chunks();
  candidate.time_ns = static_cast<double>(candidate.prediction.metrics.makespan_ns) / divisor;
  candidate.memory = static_cast<double>(bytes > 0 ? bytes : chunks) / divisor;
  return candidate;
}

}  // namespace

void mark_front(std::vector<Candidate>& all) {
  const auto dominates = [](const Candidate& a, const Candidate& b) {
    return a.left_out.empty() && a.microbatches == b.microbatches && a.time_ns <= b.time_ns &&
           a.memory <= b.memory && (a.time_ns < b.time_ns || a.memory < b.memory);
  };
  for (Candidate& one : all) {
    one.on_front = one.left_out.empty() && std::ranges::none_of(all, [&](const Candidate& other) {
                     return dominates(other, one);
                   });
  }
}

std::vector<Candidate> try_all(const ScheduleRequest& request, const std::vector<int>& microbatches,
                               const Trial& trial) {
  std::vector<Candidate> all;
  for (const int m : microbatches) {
    for (const Family& family : all_families()) {
      ScheduleRequest one = request;
      one.microbatches = m;
      if (trial.progress) {
        trial.progress(fmt::format("{}, {}", family.name, plural(m, "microbatch")));
      }
      all.push_back(try_one(family, one, trial));
    }
  }
  mark_front(all);
  return all;
}

}  // namespace pipesim
