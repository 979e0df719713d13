// Runs as their traces would tell them, without a trace.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "sim/engine/record_run.h"
#include "traces/recorded_run.h"

namespace pipesim::testing {

// A predicted run of that schedule by another name, and without its costs, so that nothing
// is taken from them.
inline RecordedRun recorded(const Schedule& schedule, const Costs& costs,
                            const std::string& name = "predicted",
                            const SimulationOptions& options = {}) {
  RecordedRun run = record_run(schedule, costs, options);
  run.name = name;
  run.about.program.clear();
  run.about.costs_json.clear();
  return run;
}

// Adds to the times of a rank, as a clock that is ahead would.
inline void shift_clock(RecordedRun& run, int rank, std::int64_t ahead_ns) {
  for (Span& span : run.spans) {
    if (span.rank != rank) continue;
    span.start_ns += ahead_ns;
    span.end_ns += ahead_ns;
  }
  std::ranges::stable_sort(run.spans, {},
                           [](const Span& span) { return std::pair(span.start_ns, span.rank); });
  RecordedIteration& iteration = run.iterations.front();
  std::int64_t first = run.spans.front().end_ns;
  std::int64_t last = first;
  for (const Span& span : run.spans) {
    if (is_transfer(span.action.kind)) continue;
    first = std::min(first, span.start_ns);
    last = std::max(last, span.end_ns);
  }
  iteration.start_ns = first;
  iteration.makespan_ns = last - first;
}

}  // namespace pipesim::testing
