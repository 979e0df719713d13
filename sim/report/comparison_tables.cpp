#include "sim/report/comparison_tables.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "sim/report/words.h"

namespace pipesim {
namespace {

std::string key_of(Side side, std::string_view rest) {
  return std::string(side_keys[side]) + std::string(rest);
}

std::string group_of(const Comparison& comparison, Side side) {
  return std::string(side_name(comparison, side));
}

std::int64_t ppm(double fraction) { return std::llround(std::clamp(fraction, -1e9, 1e9) * 1e6); }

}  // namespace

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
      row.number(ppm(fraction_of(kind.measured.p50 - kind.predicted.p50, kind.predicted.p50)));
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
