#include "sim/report/comparison_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "traces/base/text.h"
#include "traces/print/rank_table.h"

namespace pipesim {
namespace {

std::string key_of(Side side, std::string_view rest) {
  return std::string(side_keys[side]) + std::string(rest);
}

std::string group_of(const Comparison& comparison, Side side) {
  return std::string(side_name(comparison, side));
}

// An action's name where a cause is about one, else what it is about: "2F", "2", "F".
std::string subject_of(const RootCause& cause) {
  const auto or_empty = [](const std::optional<int>& value) {
    return value ? std::to_string(*value) : std::string();
  };
  std::string text = or_empty(cause.stage);
  if (cause.backward_stage) return text + " OVERLAP_F_B " + or_empty(cause.backward_stage);
  if (cause.kind) text += *cause.kind == Kind::IDLE ? "host" : kind_name(*cause.kind);
  return text + or_empty(cause.microbatch);
}

RankRun rank_run(const Comparison& comparison, Side side) {
  const SideResult& own = comparison.sides[side];
  return {group_of(comparison, side), own.played.makespan_ns, own.ranks, own.peaks,
          comparison.collectives.of_ranks[side]};
}

}  // namespace

ReportTable term_table(const Comparison& comparison) {
  ReportTable table{
      "",
      "where the difference comes from",
      {{"", "term", Unit::text}, {"", "difference", Unit::change}, {"", "meaning", Unit::prose}},
      {}};
  for (std::size_t i = 0; i < term_count; ++i) {
    const auto term = static_cast<Term>(i);
    if (!concerns(term, comparison)) continue;
    table.add().text(term_names[i]).number(comparison.gap[term]).text(meaning_of(term));
  }
  table.add().text("total").number(comparison.gap.total_ns()).text(minus_of(comparison));
  return table;
}

ReportTable cause_table(const Comparison& comparison, const ShownCauses& shown) {
  ReportTable table{"",
                    "causes, worst first",
                    {{"", "effect", Unit::change},
                     {"", "alone", Unit::change},
                     {"", "term", Unit::text, "", false},
                     {"", "of", Unit::text, "", false},
                     {"", "rank", Unit::index, "", false},
                     {"", "why", Unit::prose}},
                    {}};
  const auto add_noise = [&] {
    if (comparison.noise.effect_ns == 0) return;
    ReportRow& row = table.add().number(comparison.noise.effect_ns).none();
    row.text("noise").none().none().text("noise: " + noise_text(comparison));
  };
  for (std::size_t i = 0; i < shown.places.size(); ++i) {
    if (i == shown.noise_before) add_noise();
    const RootCause& cause = comparison.root_causes[shown.places[i]];
    ReportRow& row = table.add().number(cause.effect_ns).number(cause.alone_ns);
    row.text(term_names[static_cast<std::size_t>(cause.term)]).text(subject_of(cause));
    (cause.rank < 0 ? row.none() : row.number(cause.rank)).text(cause.why);
  }
  if (!shown.noise_before) add_noise();
  if (shown.others > 0) {
    table.add().number(shown.others_ns).none().none().none().none().text(shown.others_text());
  }
  if (comparison.root_causes.empty()) {
    table.note = without_causes(comparison);
    return table;
  }
  table.note = fmt::format(
      "Effect: the cause's share of the difference; alone: how much longer the {} takes with this "
      "cause alone as in the {}.{}",
      side_noun(comparison, predicted_side), side_noun(comparison, measured_side),
      shown.others > 0 ? " --json lists all causes." : "");
  return table;
}

ReportTable rank_table(const Comparison& comparison, const std::vector<int>& ranks) {
  ReportTable table = rank_table(
      {rank_run(comparison, predicted_side), rank_run(comparison, measured_side)}, ranks);
  const auto& sides = comparison.sides;
  table.note = fmt::format(
      "Bubble, of all ranks' time: {} {}, {} {}.", side_name(comparison, predicted_side),
      format_percent(sides[predicted_side].global_bubble), side_name(comparison, measured_side),
      format_percent(sides[measured_side].global_bubble));
  const std::string left_out =
      left_out_ranks(ranks.size(), std::max(sides[0].ranks.size(), sides[1].ranks.size()));
  if (!left_out.empty()) table.note += " " + left_out;
  return table;
}

ReportTable rank_table(const Comparison& comparison, Side side) {
  std::vector<int> all(comparison.sides[side].ranks.size());
  std::iota(all.begin(), all.end(), 0);
  return rank_table({rank_run(comparison, side)}, all);
}

ReportTable path_table(const Comparison& comparison) {
  ReportTable table{"",
                    "",
                    {{"", "critical path", Unit::text},
                     {"", "compute", Unit::time},
                     {"", "transfers", Unit::time},
                     {"", "other", Unit::time}},
                    {}};
  const bool has_steps = comparison.unpaired.empty();
  if (has_steps) table.columns.push_back({"", "steps"});
  for (const Side side : both_sides) {
    const CriticalPath& times = comparison.sides[side].critical_path;
    ReportRow& row = table.add().text(side_name(comparison, side)).number(times.compute_ns);
    row.number(times.p2p_ns).number(times.other_ns);
    if (has_steps) row.number(std::ssize(comparison.sides[side].played.critical_path));
  }
  if (has_steps) table.note = parting_of(comparison);
  return table;
}

ReportTable kind_table(const Comparison& comparison) {
  ReportTable table{"stage_kinds", "durations by stage and kind", {}, {}};
  // An input pipeline's stage is its rank.
  const bool has_stages = !comparison.operations.of_inputs();
  const std::string first = group_of(comparison, predicted_side);
  const std::string second = group_of(comparison, measured_side);
  table.columns = {{"rank", "rank", Unit::index},
                   {"stage", has_stages ? "stage" : "", Unit::index},
                   {"kind", "kind", Unit::text},
                   {"predicted_ns.p10", "", Unit::time},
                   {"predicted_ns.p50", "median", Unit::time, first},
                   {"predicted_ns.p90", "", Unit::time},
                   {"predicted_ns.count", ""},
                   {"measured_ns.p10", "p10", Unit::time, second},
                   {"measured_ns.p50", "median", Unit::time, second},
                   {"measured_ns.p90", "p90", Unit::time, second},
                   {"measured_ns.count", ""},
                   {"", "error", Unit::fraction},
                   {"lateness_ns.own", "own", Unit::change, "", false},
                   {"lateness_ns.launch", "launch", Unit::change, "", false},
                   {"lateness_ns.communication", "communication", Unit::change, "", false},
                   {"lateness_ns.inherited", "inherited", Unit::change, "", false}};
  for (const StageKind& kind : comparison.stage_kinds) {
    ReportRow& row = table.add();
    row.weight = std::abs(kind.sum.own_ns);
    row.number(kind.rank).number(kind.stage).text(label_of(kind));
    for (const Quantiles& times : {kind.predicted, kind.measured}) {
      row.number(times.p10).number(times.p50).number(times.p90).number(times.count);
    }
    if (kind.predicted.p50 == 0) {
      row.none();
    } else {
      row.fraction(fraction_of(kind.measured.p50 - kind.predicted.p50, kind.predicted.p50));
    }
    row.number(kind.sum.own_ns).number(kind.sum.launch_ns);
    row.number(kind.sum.communication_ns).number(kind.sum.inherited_ns);
  }
  return table;
}

ReportTable collective_table(const Comparison& comparison) {
  ReportTable table{"collectives", "exchanges with replicas", {}, {}};
  table.columns = {{"rank", "rank", Unit::index},
                   {"stage", "stage", Unit::index},
                   {"kind", "exchange", Unit::text}};
  for (const Side side : both_sides) {
    const std::string group = group_of(comparison, side);
    table.columns.push_back({key_of(side, "_ns.time"), "time", Unit::time, group});
    table.columns.push_back({key_of(side, "_ns.hidden"), "hidden", Unit::time, group});
    table.columns.push_back({key_of(side, "_ns.exposed"), "exposed", Unit::time, group});
  }
  for (const CollectiveRow& own : comparison.collectives.rows) {
    ReportRow& row = table.add();
    row.number(own.rank).number(own.stage).text(kind_name(own.kind));
    for (const CollectiveTimes& times : own.times) {
      row.number(times.total_ns).number(times.hidden_ns).number(times.exposed_ns());
    }
  }
  return table;
}

ReportTable save_table(const Comparison& comparison) {
  ReportTable table{
      "saves", "checkpoints", {{"rank", "rank", Unit::index}, {"", "bytes", Unit::bytes}}, {}};
  for (const Side side : both_sides) {
    const std::string group = group_of(comparison, side);
    table.columns.push_back({key_of(side, ".count"), "saves", Unit::count, group});
    table.columns.push_back({key_of(side, ".bytes"), "", Unit::bytes});
    table.columns.push_back({key_of(side, ".save_ns"), "SAVE", Unit::time, group});
    table.columns.push_back({key_of(side, ".beside_ns"), "beside", Unit::time, group});
    table.columns.push_back({key_of(side, ".hidden_ns"), "hidden", Unit::time, group});
  }
  for (const SaveRow& own : comparison.saves) {
    ReportRow& row = table.add();
    row.number(own.rank).number(std::max(own.times[0].bytes, own.times[1].bytes));
    for (const SaveTimesOfRank& times : own.times) {
      row.number(times.count).number(times.bytes).number(times.save_ns);
      row.number(times.beside_ns).number(times.hidden_ns);
    }
  }
  return table;
}

ReportTable clock_table(const RecordedRun& measured, const Comparison& comparison) {
  ReportTable table{"clocks",
                    "clocks",
                    {{"rank", "rank", Unit::index},
                     {"ahead_ns", "found ahead, corrected", Unit::change},
                     {"ahead_uncertainty_ns", "give or take", Unit::time},
                     {"uncertainty_ns", "recorded uncertainty", Unit::time},
                     {"shift_ns", "", Unit::time}},
                    {}};
  const auto& recorded = measured.about.clocks;
  for (std::size_t rank = 0; rank < comparison.clocks.size(); ++rank) {
    const ClockShift& clock = comparison.clocks[rank];
    const RecordedClock own = rank < recorded.size() ? recorded[rank] : RecordedClock();
    table.add()
        .number(static_cast<std::int64_t>(rank))
        .number(clock.ahead_ns)
        .number(clock.uncertainty_ns)
        .number(own.uncertainty_ns)
        .number(own.shift_ns);
  }
  return table;
}

}  // namespace pipesim
