#include "sim/report/exposures.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/report/words.h"

namespace pipesim {
namespace {

std::optional<double> change_of(const BothTimes& both) {
  if (both[predicted_side] == 0) return std::nullopt;
  return fraction_of(both[measured_side] - both[predicted_side], both[predicted_side]);
}

void add_both_columns(ReportTable& table, const std::string& group, const Comparison& comparison) {
  for (const Side side : both_sides) {
    table.columns.push_back({"", std::string(side_name(comparison, side)), Unit::time, group});
  }
  table.columns.push_back({"", "change", Unit::fraction});
}

void add_both(ReportRow& row, const BothTimes& both) {
  for (const std::int64_t ns : both) row.number(ns);
  const auto change = change_of(both);
  if (change && *change != 0) {
    row.fraction(*change);
  } else {
    row.none();
  }
}

Json both_json(const BothTimes& both) {
  return {{"predicted", both[predicted_side]},
          {"measured", both[measured_side]},
          {"change", change_of(both)}};
}

}  // namespace

Exposures exposures_of(const InputRun& predicted, const InputRun& measured) {
  const std::array<InputMetrics, 2> metrics{measure(predicted), measure(measured)};
  const auto mean = [&](auto value) {
    BothTimes both{};
    for (const Side side : both_sides) {
      for (const InputMetrics::Rank& rank : metrics[side].ranks) both[side] += value(rank);
      both[side] /= std::max<std::int64_t>(std::ssize(metrics[side].ranks), 1);
    }
    return both;
  };
  Exposures exposures;
  exposures.batches = std::max(predicted.program.batches, 1);
  for (const Side side : both_sides) {
    exposures.makespan[side] = metrics[side].makespan_ns;
    exposures.steady_iteration[side] = metrics[side].steady_iteration_ns;
  }
  using Rank = InputMetrics::Rank;
  exposures.busy = mean([](const Rank& rank) { return rank.busy_ns; });
  for (const Kind kind : input_kinds) {
    const auto at = static_cast<std::size_t>(kind);
    const Exposures::KindRow row{kind, mean([&](const Rank& rank) { return rank.total[at]; }),
                                 mean([&](const Rank& rank) { return rank.busy_by_kind[at]; }),
                                 mean([&](const Rank& rank) { return rank.exposed[at]; }),
                                 mean([&](const Rank& rank) { return rank.hidden_ns(kind); })};
    if (row.total != BothTimes{}) exposures.kinds.push_back(row);
  }
  exposures.waits = {{"host", "host", mean([](const Rank& rank) { return rank.host_ns; })},
                     {"skew", "other ranks", mean([](const Rank& rank) { return rank.skew_ns; })},
                     {"other", "unexplained", mean([](const Rank& rank) { return rank.other_ns; })},
                     {"drain", "drain", mean([](const Rank& rank) { return rank.drain_ns; })}};
  return exposures;
}

ReportTable batch_table(const Exposures& exposures, const Comparison& comparison) {
  ReportTable table{"", "", {{"", "run", Unit::text}}, {}};
  add_both_columns(table, "", comparison);
  for (const auto& [name, both] : {std::pair{"makespan", exposures.makespan},
                                   std::pair{"a batch, steady", exposures.steady_iteration},
                                   std::pair{"busy", exposures.busy}}) {
    add_both(table.add().text(name), both);
  }
  return table;
}

ReportTable exposure_table(const Exposures& exposures, const Comparison& comparison) {
  ReportTable table{"", "", {{"", "a batch", Unit::text}}, {}};
  add_both_columns(table, "takes", comparison);
  add_both_columns(table, "busy or exposed", comparison);
  const auto add = [&](std::string_view name, const BothTimes& total, const BothTimes& compute) {
    ReportRow& row = table.add().text(name);
    for (BothTimes both : {total, compute}) {
      for (std::int64_t& ns : both) ns /= exposures.batches;
      add_both(row, both);
    }
  };
  for (const Exposures::KindRow& row : exposures.kinds) {
    add(kind_name(row.kind), row.total,
        {row.busy[0] + row.exposed[0], row.busy[1] + row.exposed[1]});
  }
  for (const Exposures::WaitRow& row : exposures.waits) add(row.name, {}, row.exposed);
  return table;
}

void add_exposures(Json& json, const Exposures& exposures, const InputProgram& program) {
  json["input_pipeline"] = program.name;
  json["batches"] = program.batches;
  json["accumulate"] = program.accumulate;
  json["steady_iteration_ns"] = both_json(exposures.steady_iteration);
  json["busy_ns"] = both_json(exposures.busy);
  Json kinds = Json::array();
  for (const Exposures::KindRow& row : exposures.kinds) {
    kinds.push_back({{"kind", kind_name(row.kind)},
                     {"total_ns", both_json(row.total)},
                     {"busy_ns", both_json(row.busy)},
                     {"exposed_ns", both_json(row.exposed)},
                     {"hidden_ns", both_json(row.hidden)}});
  }
  json["kinds"] = std::move(kinds);
  Json waits = Json::object();
  for (const Exposures::WaitRow& row : exposures.waits) waits[row.key] = both_json(row.exposed);
  json["waits_ns"] = std::move(waits);
}

}  // namespace pipesim
