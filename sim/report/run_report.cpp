#include "sim/report/run_report.h"

#include <fmt/format.h>

#include <vector>

#include "traces/base/text.h"
#include "traces/print/picture.h"
#include "traces/print/tables.h"

namespace pipesim {

TimelinePanel timeline_of(const RecordedRun& run) {
  const RecordedIteration& iteration = run.iterations[run.median_iteration()];
  TimelinePanel panel;
  panel.chunk_of_stage = run.chunk_of_stage;
  panel.makespan_ns = iteration.makespan_ns;
  panel.actions_of_rank.resize(static_cast<std::size_t>(run.ranks));
  for (const Span& span : run.spans_of(iteration)) {
    if (is_communication(span.action)) continue;
    ++panel.actions_of_rank[static_cast<std::size_t>(span.rank)];
  }
  panel.replay = [&run, &iteration](const SpanSink& sink) {
    for (Span span : run.spans_of(iteration)) {
      span.start_ns -= iteration.start_ns;
      span.end_ns -= iteration.start_ns;
      sink(span);
    }
  };
  return panel;
}

std::string run_report(const RecordedRun& run, const Terminal& terminal) {
  const Metrics metrics = run.metrics(run.median_iteration());
  return draw(timeline_of(run), terminal) + "\n" + rank_table(metrics) + "\n" +
         wrap(bubble_lines(metrics) + critical_path_line(metrics), terminal.width);
}

std::string run_verdict(const RecordedRun& run) {
  std::string text = run.about.schedule.empty() ? "" : run.about.schedule + ", ";
  text += fmt::format("{}, {}", plural(run.ranks, "rank"),
                      plural(run.microbatches, "microbatch", "microbatches"));
  if (run.iterations.empty()) return text + ": no complete iteration.";
  const Metrics metrics = run.metrics(run.median_iteration());
  text += fmt::format(": {}, of which {} bubble", format_time(metrics.makespan_ns),
                      format_percent(metrics.global_bubble()));
  if (run.iterations.size() > 1) {
    text += fmt::format("; the median of {}", plural(std::ssize(run.iterations), "iteration"));
  }
  return text + ".";
}

}  // namespace pipesim
