// Runs as their traces would tell them, without a trace.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "sim/engine/simulate.h"
#include "traces/recorded_run.h"

namespace pipesim::testing {

// A predicted iteration of that schedule.
inline RecordedRun recorded(const Schedule& schedule, const Costs& costs,
                            const std::string& name = "predicted",
                            const SimulationOptions& options = {}) {
  Timeline timeline = record_timeline(schedule, costs, options);
  RecordedRun run;
  static_cast<TimelineFrame&>(run) = timeline;
  run.name = name;
  run.about.source = Source::predicted;
  run.about.schedule = schedule.name;
  run.about.p2p = p2p_name(options.transfers.mode);
  run.about.rank_of_stage = schedule.placement.rank_of_stage();
  run.spans.assign(timeline.spans.begin(), timeline.spans.end());
  RecordedIteration iteration;
  iteration.end = run.spans.size();
  for (const Span& span : run.spans) {
    if (!is_transfer(span.action.kind)) {
      iteration.makespan_ns = std::max(iteration.makespan_ns, span.end_ns);
    }
  }
  run.iterations = {iteration};
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
