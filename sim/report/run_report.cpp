#include "sim/report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/compare/critical_path.h"
#include "sim/compare/quantiles.h"
#include "sim/report/json.h"
#include "traces/base/text.h"
#include "traces/input_metrics_json.h"
#include "traces/metrics_json.h"
#include "traces/print/input_report.h"
#include "traces/print/picture.h"
#include "traces/print/rank_table.h"
#include "traces/print/tables.h"

namespace pipesim {

TimelinePanel timeline_of(const RecordedRun& run) {
  if (run.inputs) return panel_of(*run.inputs);
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
  const Metrics metrics = median_metrics(run);
  if (run.inputs) {
    return input_tables(*run.inputs, measure(*run.inputs), terminal) + "\n" +
           wrap(critical_path_line(metrics), terminal.width);
  }
  return draw(timeline_of(run), terminal) + "\n" + rank_text(metrics, terminal.width) + "\n" +
         wrap(bubble_lines(metrics) + critical_path_line(metrics), terminal.width);
}

Json run_report_json(const RecordedRun& run) {
  const std::size_t median = run.median_iteration();
  const RecordedIteration& iteration = run.iterations[median];
  const Metrics metrics = median_metrics(run);
  std::vector<std::int64_t> makespans;
  for (const RecordedIteration& one : run.iterations) makespans.push_back(one.makespan_ns);
  Json json{
      {"format", "pipesim-report"},
      {"version", 1},
      {"file", run.name},
      {"source", name_of(run.about.source)},
      {"schedule", run.about.schedule},
      {"stages", run.ranks},
      {"microbatches", run.microbatches},
      {"rank_of_stage", run.about.rank_of_stage},
      {"verdict", run_verdict(run)},
      {"makespan_ns", metrics.makespan_ns},
      {"iteration_ns", quantiles_json(quantiles_of(std::move(makespans)))},
      {"bubble_fraction", {{"global", metrics.global_bubble()}, {"span", metrics.span_bubble()}}},
      {"critical_path", critical_path_json(metrics.critical_path)},
      {"taken_fraction", preempted_fraction(run.spans_of(iteration))}};
  if (run.inputs) add_input_run(json, *run.inputs, measure(*run.inputs));
  Json& ranks = json["ranks"];
  for (std::size_t r = 0; r < metrics.ranks.size(); ++r) {
    const RankMetrics& rank = metrics.ranks[r];
    Json own = run.inputs ? std::move(ranks[r]) : Json{{"rank", r}, {"busy_ns", rank.busy_ns}};
    own["first_start_ns"] = rank.first_start_ns;
    own["last_end_ns"] = rank.last_end_ns;
    own["bubble_ns"] = bubble_json(rank.bubble);
    if (run.inputs) {
      ranks[r] = std::move(own);
    } else {
      own["peak_activation_chunks"] = rank.peak_activation_chunks;
      ranks.append(own);
    }
  }
  json["warnings"] = warnings_json(run.warnings);
  return json;
}

std::string run_verdict(const RecordedRun& run) {
  if (run.inputs) return input_verdict(*run.inputs, measure(*run.inputs));
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
