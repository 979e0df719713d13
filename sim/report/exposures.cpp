#include "sim/report/exposures.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/report/words.h"
#include "traces/print/columns.h"
#include "traces/print/tables.h"

namespace pipesim {
namespace {

std::optional<double> change_of(const BothTimes& both) {
  if (both[predicted_side] == 0) return std::nullopt;
  return fraction_of(both[measured_side] - both[predicted_side], both[predicted_side]);
}

std::string change_text(const BothTimes& both) {
  const auto change = change_of(both);
  if (!change || *change == 0) return "-";
  return *change < 10 ? with_percent(*change) : fmt::format("x {:.0f}", *change + 1);
}

// Both sides of a quantity, and how far they are apart, as columns.
class PairColumns {
 public:
  PairColumns(std::string title, const std::array<std::string_view, 2>& names)
      : title_(std::move(title)) {
    for (const Side side : both_sides) columns_[side].name = names[side];
  }
  void add(const BothTimes& both, const TableUnit& unit, std::int64_t parts = 1) {
    for (const Side side : both_sides) {
      columns_[side].cells.push_back(unit.text(both[side] / parts));
    }
    change_.cells.push_back(change_text(both));
  }
  void add_to(std::vector<ColumnGroup>& groups) const {
    groups.push_back({title_, {columns_[0], columns_[1]}});
    groups.push_back({"", {change_}});
  }

 private:
  std::string title_;
  std::array<Column, 2> columns_;
  Column change_{"change", {}};
};

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

std::string exposure_tables(const Exposures& exposures, int batches,
                            const std::array<std::string_view, 2>& names, int width) {
  const std::int64_t longest = std::ranges::max(exposures.makespan);
  const TableUnit whole = table_unit(longest);
  std::vector<std::string> labels{std::string(whole.name)};
  PairColumns times("", names);
  for (const auto& [name, both] : {std::pair{"makespan", exposures.makespan},
                                   std::pair{"a batch, steady", exposures.steady_iteration},
                                   std::pair{"busy", exposures.busy}}) {
    labels.emplace_back(name);
    times.add(both, whole);
  }
  std::vector<ColumnGroup> groups;
  times.add_to(groups);
  std::string text = table(labels, groups, static_cast<std::size_t>(width)) + "\n";

  const std::int64_t parts = std::max(batches, 1);
  const TableUnit unit = table_unit(longest / parts);
  labels = {"a batch, " + std::string(unit.name)};
  PairColumns total("takes", names), on_compute("busy or exposed", names);
  for (const Exposures::KindRow& row : exposures.kinds) {
    labels.emplace_back(kind_name(row.kind));
    total.add(row.total, unit, parts);
    on_compute.add({row.busy[0] + row.exposed[0], row.busy[1] + row.exposed[1]}, unit, parts);
  }
  for (const Exposures::WaitRow& row : exposures.waits) {
    labels.emplace_back(row.name);
    total.add({}, unit);
    on_compute.add(row.exposed, unit, parts);
  }
  groups.clear();
  total.add_to(groups);
  on_compute.add_to(groups);
  return text + table(labels, groups, static_cast<std::size_t>(width));
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
