#include "sim/cli/candidates.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/cli/terminal.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::cli {
namespace {

Candidate try_one(const Family& family, ScheduleRequest request, const CostSource& source) {
  Candidate candidate;
  candidate.schedule = family.name;
  candidate.microbatches = request.microbatches;
  if (!family.many_chunks) request.chunks.reset();
  if (!family.takes_group) request.group.reset();
  candidate.chunks = request.chunks.value_or(family.default_chunks);
  try {
    const Setup setup = make_setup(family, request);
    const Costs costs = source.resolve(setup.schedule.placement, request.microbatches);
    candidate.prediction = predict(setup.schedule, costs, setup.family, setup.shape);
  } catch (const Error& error) {
    candidate.left_out = error.what();
    return candidate;
  }
  const double divisor = source.by_layer() ? 1 : candidate.chunks;
  const std::int64_t bytes = candidate.prediction.peak_memory_bytes();
  const std::int64_t chunks = candidate.prediction.metrics.peak_activation_chunks();
  candidate.time_ns = static_cast<double>(candidate.prediction.metrics.makespan_ns) / divisor;
  candidate.memory = static_cast<double>(bytes > 0 ? bytes : chunks) / divisor;
  return candidate;
}

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

}  // namespace

std::vector<Candidate> try_all(const ScheduleRequest& request, const std::vector<int>& microbatches,
                               const CostSource& costs) {
  std::vector<Candidate> all;
  Progress progress;
  for (const int m : microbatches) {
    for (const Family& family : all_families()) {
      ScheduleRequest one = request;
      one.microbatches = m;
      progress.show(fmt::format("{}, {}", family.name, plural(m, "microbatch")));
      all.push_back(try_one(family, one, costs));
    }
  }
  mark_front(all);
  return all;
}

}  // namespace pipesim::cli
