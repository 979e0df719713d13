#include "traces/collective_times.h"

#include <cstddef>
#include <utility>

#include "traces/intervals.h"

namespace pipesim {

std::vector<CollectiveTimes> collective_times(std::span<const Span> spans, int ranks) {
  std::vector<std::vector<Interval>> collectives(static_cast<std::size_t>(ranks));
  std::vector<std::vector<Interval>> compute(collectives.size());
  for (const Span& span : spans) {
    const auto rank = static_cast<std::size_t>(span.rank);
    const Interval own{span.start_ns, span.end_ns};
    if (is_collective(span.action)) collectives[rank].push_back(own);
    if (is_compute(span.action.kind)) compute[rank].push_back(own);
  }
  std::vector<CollectiveTimes> times;
  for (std::size_t rank = 0; rank < collectives.size(); ++rank) {
    const std::vector<Interval> exchanging = united(std::move(collectives[rank]));
    const std::vector<Interval> computing = united(std::move(compute[rank]));
    times.push_back({length_of(exchanging), common_of(exchanging, computing)});
  }
  return times;
}

}  // namespace pipesim
