#include "sim/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "sim/report/comparison_tables.h"
#include "sim/report/exposures.h"
#include "sim/report/picture.h"
#include "sim/report/run_report.h"
#include "sim/report/words.h"
#include "traces/base/text.h"
#include "traces/print/small_multiples.h"
#include "traces/print/tables.h"

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

// ---- Tables

std::string bubble_table(const Comparison& comparison) {
  const auto& sides = comparison.sides;
  const std::size_t ranks = std::max(sides[0].ranks.size(), sides[1].ranks.size());
  const TableUnit unit =
      table_unit(std::max(sides[0].played.makespan_ns, sides[1].played.makespan_ns));
  const bool bytes = !sides[0].peaks.empty() && !sides[1].peaks.empty();
  std::string out = fmt::format("{:>25}{:-^35}\n", "", fmt::format(" bubble, {} ", unit.name));
  out += fmt::format("rank {:>19} {:>8} {:>8} {:>8} {:>8} {:>7}{}\n",
                     fmt::format("busy, {}", unit.name), "warm-up", "steady", "drain", "p2p",
                     held_name(comparison), bytes ? "      peak" : "");
  for (const int r : shown_ranks(static_cast<int>(ranks))) {
    const auto at = static_cast<std::size_t>(r);
    for (const Side side : both_sides) {
      if (at >= sides[side].ranks.size()) continue;
      const RankMetrics& rank = sides[side].ranks[at];
      out +=
          fmt::format("{:>4} {:<9}{:>10} {:>8} {:>8} {:>8} {:>8} {:>7}",
                      side == predicted_side ? std::to_string(r) : "", side_name(comparison, side),
                      unit.text(rank.busy_ns), unit.text(rank.bubble.warmup_ns),
                      unit.text(rank.bubble.steady_ns), unit.text(rank.bubble.drain_ns),
                      unit.text(rank.bubble.p2p_ns), format_count(rank.peak_activation_chunks));
      out += bytes ? fmt::format(" {:>9}\n", format_bytes(sides[side].peaks[at].total)) : "\n";
    }
  }
  const std::size_t shown = shown_ranks(static_cast<int>(ranks)).size();
  if (shown < ranks) {
    out += fmt::format("     {} of {} ranks; --json lists them all\n", shown, ranks);
  }
  out += fmt::format(
      "bubble, of all ranks' time: {} {}, {} {}\n", side_name(comparison, predicted_side),
      format_percent(sides[predicted_side].global_bubble), side_name(comparison, measured_side),
      format_percent(sides[measured_side].global_bubble));
  return out;
}

// ---- Sentences

std::string critical_paths(const Comparison& comparison) {
  std::string out = "critical path\n";
  const bool joined = comparison.unpaired.empty();
  for (const Side side : both_sides) {
    const CriticalPath& times = comparison.sides[side].critical_path;
    out += fmt::format("  {:<9}  {} compute, {} transfers, {} other", side_name(comparison, side),
                       format_time(times.compute_ns), format_time(times.p2p_ns),
                       format_time(times.other_ns));
    const auto steps = std::ssize(comparison.sides[side].played.critical_path);
    out += joined ? fmt::format("; {}\n", plural(steps, "step")) : "\n";
  }
  return joined ? out + parting_of(comparison) + "\n" : out;
}

std::string sentences(const RecordedRun& predicted, const RecordedRun& measured,
                      const Comparison& comparison) {
  std::string out;
  for (const Fact& fact : facts_of(predicted, measured, comparison)) {
    out += fmt::format("{:<9} {}\n", fact.about, fact.text);
  }
  return out + predicted.warnings.text() + measured.warnings.text();
}

// Wrapped behind a margin that something else fills in the first line; below that, where little
// room is left.
std::string hanging(const std::string& text, std::size_t margin, int width) {
  constexpr int least = 30;
  constexpr std::size_t min_margin = 6;
  const bool is_beside = width >= static_cast<int>(margin) + least;
  if (!is_beside) margin = min_margin;
  std::string wrapped = (is_beside ? "" : "\n") + wrap(text, width - static_cast<int>(margin));
  for (std::size_t at = 0; (at = wrapped.find('\n', at)) != std::string::npos; at += margin) {
    wrapped.insert(++at, margin, ' ');
  }
  return wrapped;
}

std::string gap_table(const Comparison& comparison, int width) {
  std::int64_t largest = 0;
  for (const std::int64_t ns : comparison.gap.terms) largest = std::max(largest, std::abs(ns));
  const TableUnit unit = table_unit(largest);
  std::string out =
      wrap(fmt::format("where the difference comes from, {}", unit.name), width) + "\n";
  const auto add = [&](std::string_view name, std::int64_t ns, std::string_view meaning) {
    constexpr std::size_t margin = 25;
    out += fmt::format("  {:<10} {:>10}  {}\n", name, change(ns, unit),
                       hanging(std::string(meaning), margin, width));
  };
  for (std::size_t i = 0; i < term_count; ++i) {
    const auto term = static_cast<Term>(i);
    if (!concerns(term, comparison)) continue;
    add(term_names[i], comparison.gap.terms[i], meaning_of(term));
  }
  add("total", comparison.gap.total_ns(), minus_of(comparison));
  return out;
}

std::string cause_list(const Comparison& comparison, int width) {
  if (comparison.root_causes.empty())
    return wrap(fmt::format("causes  {}", without_causes(comparison)), width) + "\n";
  const ShownCauses shown = shown_causes(comparison, max_causes_shown);
  std::int64_t largest = std::max(std::abs(comparison.noise.effect_ns), std::abs(shown.others_ns));
  for (const std::size_t place : shown.places) {
    const RootCause& cause = comparison.root_causes[place];
    largest = std::max({largest, std::abs(cause.effect_ns), std::abs(cause.alone_ns)});
  }
  const TableUnit unit = table_unit(largest);
  std::string out =
      wrap(fmt::format("causes, worst first, {}: share of the difference, and how much longer the "
                       "{} takes with this cause alone as in the {}",
                       unit.name, side_noun(comparison, predicted_side),
                       side_noun(comparison, measured_side)),
           std::min(width, 78)) +
      "\n";
  const auto add = [&](std::int64_t effect_ns, const std::string& alone, const std::string& what) {
    constexpr std::size_t margin = 26;
    out += fmt::format("  {:>10} {:>10}   {}\n", change(effect_ns, unit), alone,
                       hanging(what, margin, width));
  };
  for (const std::size_t place : shown.places) {
    const RootCause& cause = comparison.root_causes[place];
    add(cause.effect_ns, change(cause.alone_ns, unit), cause.why);
  }
  if (shown.others > 0) add(shown.others_ns, "", shown.others_text() + "; --json lists them");
  const std::int64_t noise_ns = comparison.noise.effect_ns;
  if (noise_ns != 0) add(noise_ns, "", "noise: " + noise_text(comparison));
  return out;
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
  std::string out = bold(wrap(verdict_of(comparison), terminal.width), terminal.colour) + "\n\n";
  out += small_multiples(timelines_of(predicted, measured, comparison), terminal) + "\n";
  if (!comparison.unpaired.empty()) {
    return out + bubble_table(comparison) + "\n" + critical_paths(comparison) +
           wrap(sentences(predicted, measured, comparison), terminal.width);
  }
  out += gap_table(comparison, terminal.width) + "\n";
  out += cause_list(comparison, terminal.width) + "\n";
  if (predicted.inputs) {
    out += exposure_tables(
               exposures_of(*predicted.inputs, *measured.inputs), predicted.inputs->program.batches,
               {side_name(comparison, predicted_side), side_name(comparison, measured_side)},
               terminal.width) +
           "\n";
  } else {
    out += to_text(kind_table(comparison), max_rows_shown, terminal.width) + "\n";
  }
  for (const ReportTable& table : {collective_table(comparison), save_table(comparison)}) {
    if (!table.rows.empty()) out += to_text(table, max_rows_shown, terminal.width) + "\n";
  }
  out += bubble_table(comparison) + "\n";
  out += wrap(critical_paths(comparison), terminal.width);
  return out + wrap(sentences(predicted, measured, comparison), terminal.width);
}

}  // namespace pipesim
