#include "sim/report/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/report/comparison_tables.h"
#include "sim/report/exposures.h"
#include "sim/report/picture.h"
#include "sim/report/run_report.h"
#include "sim/report/words.h"
#include "traces/base/text.h"
#include "traces/print/small_multiples.h"

namespace pipesim {
namespace {

constexpr std::size_t max_causes_shown = 8;
constexpr std::size_t max_rows_shown = 24;
constexpr std::size_t max_streams_shown = 16;

// ---- Pictures: both runs on one time axis

TimelinePanel panel_of(const Comparison& comparison, Side side) {
  const Operations& operations = comparison.operations;
  TimelinePanel panel;
  panel.title = side_name(comparison, side);
  panel.makespan_ns = comparison.sides[side].played.makespan_ns;
  for (const auto& list : operations.lists[side]) {
    std::vector<std::int32_t> stages;
    for (const OperationId id : list) stages.push_back(operations.actions[id].stage);
    std::ranges::sort(stages);
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    for (std::size_t chunk = 0; chunk < stages.size(); ++chunk) {
      const auto stage = static_cast<std::size_t>(stages[chunk]);
      if (panel.chunk_of_stage.size() <= stage) panel.chunk_of_stage.resize(stage + 1);
      panel.chunk_of_stage[stage] = static_cast<int>(chunk);
    }
    panel.actions_of_rank.push_back(list.size());
  }
  panel.replay = [&operations, side](const SpanSink& sink) {
    for (const auto& list : operations.lists[side]) {
      for (const OperationId id : list) {
        const Occurrence& own = operations.sides[side][id];
        Span span{operations.actions[id], own.rank};
        span.action.joined = operations.opens_cell[id];
        span.start_ns = own.start_ns;
        span.end_ns = own.end_ns;
        sink(span);
      }
    }
  };
  return panel;
}

// ---- Sentences

std::string sentences(const RecordedRun& predicted, const RecordedRun& measured,
                      const Comparison& comparison) {
  std::string out;
  for (const Fact& fact : facts_of(predicted, measured, comparison)) {
    out += fmt::format("{:<9} {}\n", fact.about, fact.text);
  }
  return out + predicted.warnings.text() + measured.warnings.text();
}

}  // namespace

TimelineGroup timelines_of(const RecordedRun& predicted, const RecordedRun& measured,
                           const Comparison& comparison) {
  if (!comparison.unpaired.empty()) {
    TimelineGroup group{"", {timeline_of(predicted), timeline_of(measured)}, ""};
    for (const Side side : both_sides) group.panels[side].title = side_name(comparison, side);
    return group;
  }
  if (predicted.inputs) {
    const std::vector<int> ranks = few_ranks(comparison, max_streams_shown);
    TimelineGroup group{
        "", {panel_of(*predicted.inputs, ranks), panel_of(*measured.inputs, ranks)}, ""};
    for (const Side side : both_sides) group.panels[side].title = side_name(comparison, side);
    if (std::ssize(ranks) < predicted.ranks) {
      group.note = fmt::format("{} of {} ranks", ranks.size(), predicted.ranks);
    }
    return group;
  }
  return {"", {panel_of(comparison, predicted_side), panel_of(comparison, measured_side)}, ""};
}

std::string comparison_report(const RecordedRun& predicted, const RecordedRun& measured,
                              const Comparison& comparison, const Terminal& terminal) {
  std::vector<ReportTable> tables;
  if (comparison.unpaired.empty()) {
    tables.push_back(term_table(comparison));
    tables.push_back(cause_table(comparison, shown_causes(comparison, max_causes_shown)));
    if (predicted.inputs) {
      const Exposures exposures = exposures_of(*predicted.inputs, *measured.inputs);
      tables.push_back(batch_table(exposures, comparison));
      tables.push_back(exposure_table(exposures, comparison));
    } else {
      tables.push_back(kind_table(comparison));
    }
    tables.push_back(collective_table(comparison));
    tables.push_back(save_table(comparison));
  }
  const std::size_t ranks =
      std::max(comparison.sides[0].ranks.size(), comparison.sides[1].ranks.size());
  tables.push_back(rank_table(comparison, shown_ranks(static_cast<int>(ranks))));
  tables.push_back(path_table(comparison));
  std::string out = bold(wrap(verdict_of(comparison), terminal.width), terminal.colour) + "\n\n";
  out += small_multiples(timelines_of(predicted, measured, comparison), terminal) + "\n";
  for (const ReportTable& table : tables) {
    const std::string text = to_text(table, max_rows_shown, terminal.width);
    if (!text.empty()) out += text + "\n";
  }
  return out + wrap(sentences(predicted, measured, comparison), terminal.width);
}

}  // namespace pipesim
