#include "traces/recorded_run.h"

#include <algorithm>
#include <limits>

namespace pipesim {

std::string_view name_of(Source source) {
  switch (source) {
    case Source::predicted: return "predicted";
    case Source::measured: return "measured";
    default: return "profiled";
  }
}

std::size_t RecordedRun::median_iteration() const {
  std::vector<std::int64_t> makespans;
  for (const RecordedIteration& iteration : iterations) {
    makespans.push_back(iteration.makespan_ns);
  }
  return median_of(makespans);
}

Metrics RecordedRun::metrics(std::size_t iteration) const {
  const RecordedIteration& own = iterations[iteration];
  return measure(spans_of(own), ranks, static_cast<int>(chunk_of_stage.size()), microbatches,
                 own.start_ns);
}

IterationExtent extent_of(std::span<const Span> spans) {
  std::int64_t start_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
  for (const Span& span : spans) {
    if (is_transfer(span.action.kind)) continue;
    start_ns = std::min(start_ns, span.start_ns);
    end_ns = std::max(end_ns, span.end_ns);
  }
  if (start_ns > end_ns) return {};
  return {start_ns, end_ns - start_ns};
}

}  // namespace pipesim
