#include "traces/collective_times.h"

#include <cstddef>
#include <utility>

#include "traces/intervals.h"

namespace pipesim {
namespace {

// The compute times of each rank.
std::vector<std::vector<Interval>> computing(std::span<const Span> spans) {
  std::vector<std::vector<Interval>> ranks;
  for (const Span& span : spans) {
    const auto rank = static_cast<std::size_t>(span.rank);
    if (rank >= ranks.size()) ranks.resize(rank + 1);
    if (is_compute(span.action.kind)) ranks[rank].push_back({span.start_ns, span.end_ns});
  }
  for (auto& rank : ranks) rank = united(std::move(rank));
  return ranks;
}

CollectiveTimes times_of(std::vector<Interval> exchanging, const std::vector<Interval>& compute) {
  const std::vector<Interval> all = united(std::move(exchanging));
  return {length_of(all), common_of(all, compute)};
}

}  // namespace

std::vector<CollectiveTimes> collective_times(std::span<const Span> spans, int ranks) {
  std::vector<std::vector<Interval>> collectives(static_cast<std::size_t>(ranks));
  for (const Span& span : spans) {
    if (!is_collective(span.action)) continue;
    collectives[static_cast<std::size_t>(span.rank)].push_back({span.start_ns, span.end_ns});
  }
  std::vector<std::vector<Interval>> compute = computing(spans);
  compute.resize(collectives.size());
  std::vector<CollectiveTimes> times;
  for (std::size_t rank = 0; rank < collectives.size(); ++rank) {
    times.push_back(times_of(std::move(collectives[rank]), compute[rank]));
  }
  return times;
}

std::map<CollectiveOfStage, CollectiveTimes> collective_times_by_stage(
    std::span<const Span> spans) {
  std::map<CollectiveOfStage, std::vector<Interval>> collectives;
  for (const Span& span : spans) {
    if (!is_collective(span.action) || span.action.kind == Kind::RESHARD) continue;
    collectives[{span.rank, span.action.stage, span.action.kind}].push_back(
        {span.start_ns, span.end_ns});
  }
  std::map<CollectiveOfStage, CollectiveTimes> times;
  if (collectives.empty()) return times;
  const std::vector<std::vector<Interval>> compute = computing(spans);
  for (auto& [of, exchanging] : collectives) {
    times[of] = times_of(std::move(exchanging), compute[static_cast<std::size_t>(of.rank)]);
  }
  return times;
}

}  // namespace pipesim
