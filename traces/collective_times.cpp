#include "traces/collective_times.h"

#include <algorithm>
#include <utility>

namespace pipesim {
namespace {

using Interval = std::pair<std::int64_t, std::int64_t>;

// Sorted, without overlaps.
std::vector<Interval> covered(std::vector<Interval> intervals) {
  std::ranges::sort(intervals);
  std::vector<Interval> result;
  for (const Interval& one : intervals) {
    if (!result.empty() && one.first <= result.back().second) {
      result.back().second = std::max(result.back().second, one.second);
    } else {
      result.push_back(one);
    }
  }
  return result;
}

}  // namespace

std::vector<CollectiveTimes> collective_times(std::span<const Span> spans, int ranks) {
  std::vector<std::vector<Interval>> collectives(static_cast<std::size_t>(ranks));
  std::vector<std::vector<Interval>> compute(collectives.size());
  for (const Span& span : spans) {
    const auto rank = static_cast<std::size_t>(span.rank);
    if (is_collective(span.action)) collectives[rank].emplace_back(span.start_ns, span.end_ns);
    if (is_compute(span.action.kind)) compute[rank].emplace_back(span.start_ns, span.end_ns);
  }
  std::vector<CollectiveTimes> times(collectives.size());
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    const std::vector<Interval> busy = covered(std::move(compute[rank]));
    auto next = busy.begin();
    for (const auto& [start, end] : covered(std::move(collectives[rank]))) {
      times[rank].total_ns += end - start;
      while (next != busy.end() && next->second <= start) ++next;
      for (auto own = next; own != busy.end() && own->first < end; ++own) {
        times[rank].hidden_ns += std::min(end, own->second) - std::max(start, own->first);
      }
    }
  }
  return times;
}

}  // namespace pipesim
