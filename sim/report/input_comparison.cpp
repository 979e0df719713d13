#include "sim/report/input_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "sim/report/words.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/metrics_json.h"
#include "traces/print/columns.h"
#include "traces/print/tables.h"

namespace pipesim {
namespace {

constexpr std::size_t most_differences = 10;

std::string about_program(const InputProgram& program) {
  return fmt::format(
      "{}, {}, {}{}", printable(program.name), plural(program.ranks(), "rank"),
      plural(program.batches, "batch", "batches"),
      program.accumulate > 1 ? fmt::format(", {} per step", format_count(program.accumulate)) : "");
}

void check_same_program(const InputProgram& one, const InputProgram& other,
                        const std::string& first, const std::string& second) {
  if (one.calls == other.calls && one.batches == other.batches &&
      one.accumulate == other.accumulate && one.is_stale == other.is_stale) {
    return;
  }
  const std::string here = about_program(one), there = about_program(other);
  throw input_error(fmt::format("{} is of {}, {} of {}; compare two runs of one input program",
                                printable(first), here, printable(second),
                                here == there ? "another program of the same name" : there));
}

using RankValue = std::int64_t (*)(const InputMetrics::Rank& rank, Kind kind);

InputPair mean_pair(const InputMetrics& predicted, const InputMetrics& measured, RankValue value,
                    Kind kind = Kind::NEXT) {
  const auto mean = [&](const InputMetrics& metrics) {
    std::int64_t sum = 0;
    for (const InputMetrics::Rank& rank : metrics.ranks) sum += value(rank, kind);
    return sum / std::max<std::int64_t>(std::ssize(metrics.ranks), 1);
  };
  return {mean(predicted), mean(measured)};
}

// Durations action by action: how far they are off, and where most.
void compare_actions(const InputRun& predicted, const InputRun& measured,
                     InputComparison& comparison) {
  std::vector<double> errors;
  std::vector<InputComparison::Difference> all;
  for (int rank = 0; rank < predicted.program.ranks(); ++rank) {
    const InputCalls& calls = predicted.program.calls[static_cast<std::size_t>(rank)];
    for (std::size_t place = 0; place < calls.size(); ++place) {
      const auto took = [&](const InputRun& run) {
        return run.span(rank, place).end_ns - run.span(rank, place).start_ns;
      };
      const InputPair pair{took(predicted), took(measured)};
      all.push_back({rank, calls[place].action, calls[place].stream, pair});
      if (pair.predicted_ns == 0) continue;
      errors.push_back(std::abs(static_cast<double>(pair.difference_ns())) /
                       static_cast<double>(pair.predicted_ns));
    }
  }
  const auto size = [](const InputComparison::Difference& one) {
    return std::abs(one.duration.difference_ns());
  };
  std::erase_if(all, [&](const auto& one) { return size(one) == 0; });
  const std::size_t count = std::min(all.size(), most_differences);
  // At a tie the first rank and call.
  std::ranges::stable_sort(all, std::greater(), size);
  all.resize(count);
  comparison.worst = std::move(all);
  if (errors.empty()) return;
  std::ranges::sort(errors);
  double sum = 0;
  for (const double error : errors) sum += error;
  const auto at = [&](double share) {
    return errors[static_cast<std::size_t>(static_cast<double>(errors.size() - 1) * share)];
  };
  comparison.error = {std::ssize(errors), sum / static_cast<double>(errors.size()), at(0.5),
                      at(0.9)};
}

std::optional<double> change_of(const InputPair& pair) {
  if (pair.predicted_ns == 0) return std::nullopt;
  return fraction_of(pair.difference_ns(), pair.predicted_ns);
}

std::string change_text(const InputPair& pair) {
  const auto change = change_of(pair);
  if (!change || pair.difference_ns() == 0) return "-";
  return *change < 10 ? with_percent(*change) : fmt::format("x {:.0f}", *change + 1);
}

// The name of a side, for the start of a sentence or within it.
std::string side_of(const InputRun& run, const InputRun& other, bool is_first) {
  if (run.is_measured != other.is_measured) return run.is_measured ? "measured" : "predicted";
  return is_first ? "the first run" : "the second one";
}

// The kind or wait whose busy and exposed time differs most.
std::string largest_difference(const InputComparison& comparison, int batches) {
  std::int64_t most = 0;
  std::string name;
  const auto consider = [&](std::string_view what, std::int64_t difference) {
    if (std::abs(difference) <= std::abs(most)) return;
    most = difference;
    name = what;
  };
  for (const InputComparison::KindRow& row : comparison.kinds) {
    consider(kind_name(row.kind), row.busy.difference_ns() + row.exposed.difference_ns());
  }
  for (const InputComparison::WaitRow& row : comparison.waits) {
    consider(row.name, row.exposed.difference_ns());
  }
  if (most == 0) return {};
  return fmt::format("; {} differs most, by {} per batch", name,
                     signed_time(most / std::max(batches, 1)));
}

std::string comparison_verdict(const InputRun& predicted, const InputRun& measured,
                               const InputComparison& comparison) {
  const InputPair& steady = comparison.steady_iteration;
  std::string text =
      fmt::format("{}: {} {} per batch, {} {}", about_program(predicted.program),
                  side_of(measured, predicted, false), format_time(steady.measured_ns),
                  side_of(predicted, measured, true), format_time(steady.predicted_ns));
  if (const auto change = change_of(steady)) {
    text += steady.difference_ns() == 0 ? ", as long" : ", " + with_percent(*change);
  }
  return text + largest_difference(comparison, predicted.program.batches) + ".";
}

std::string times_table(const InputRun& predicted, const InputRun& measured,
                        const InputComparison& comparison, std::size_t width) {
  const std::string first = predicted.is_measured == measured.is_measured ? "first" : "predicted";
  const std::string second = predicted.is_measured == measured.is_measured ? "second" : "measured";
  const TableUnit unit =
      table_unit(std::max(comparison.makespan.predicted_ns, comparison.makespan.measured_ns));
  std::vector<std::string> labels{std::string(unit.name)};
  Column one{first, {}}, other{second, {}}, by{"change", {}};
  const auto add = [&](std::string_view name, const InputPair& pair) {
    labels.emplace_back(name);
    one.cells.push_back(unit.text(pair.predicted_ns));
    other.cells.push_back(unit.text(pair.measured_ns));
    by.cells.push_back(change_text(pair));
  };
  add("makespan", comparison.makespan);
  add("a batch, steady", comparison.steady_iteration);
  add("busy", comparison.busy);
  return table(labels, {{"", {one, other}}, {"", {by}}}, width);
}

// A batch: means over ranks and batches.
std::string kinds_table(const InputRun& predicted, const InputRun& measured,
                        const InputComparison& comparison, std::size_t width) {
  const bool alike = predicted.is_measured == measured.is_measured;
  const std::int64_t batches = std::max(predicted.program.batches, 1);
  const TableUnit unit = table_unit(
      std::max(comparison.makespan.predicted_ns, comparison.makespan.measured_ns) / batches);
  std::vector<std::string> labels{"a batch, " + std::string(unit.name)};
  struct Block {
    std::string title;
    Column one, other, change;
  };
  const auto block = [&](std::string title) {
    return Block{std::move(title),
                 {alike ? "first" : "predicted", {}},
                 {alike ? "second" : "measured", {}},
                 {"change", {}}};
  };
  Block total = block("takes"), on_compute = block("busy or exposed");
  const auto put = [&](Block& to, const InputPair& pair) {
    to.one.cells.push_back(unit.text(pair.predicted_ns / batches));
    to.other.cells.push_back(unit.text(pair.measured_ns / batches));
    to.change.cells.push_back(change_text(pair));
  };
  for (const InputComparison::KindRow& row : comparison.kinds) {
    labels.emplace_back(kind_name(row.kind));
    put(total, row.total);
    put(on_compute, {row.busy.predicted_ns + row.exposed.predicted_ns,
                     row.busy.measured_ns + row.exposed.measured_ns});
  }
  for (const InputComparison::WaitRow& row : comparison.waits) {
    labels.emplace_back(row.name);
    put(total, {});
    put(on_compute, row.exposed);
  }
  std::vector<ColumnGroup> groups;
  for (const Block& own : {total, on_compute}) {
    groups.push_back({own.title, {own.one, own.other}});
    groups.push_back({"", {own.change}});
  }
  return table(labels, groups, width);
}

std::string worst_lines(const InputComparison& comparison) {
  if (comparison.worst.empty()) return {};
  std::string text = "Single actions that differ most:\n";
  for (const InputComparison::Difference& one : comparison.worst) {
    text +=
        fmt::format("{:>12}  {} of rank {}: {} instead of {}\n",
                    signed_time(one.duration.difference_ns()), to_text(one.action), one.rank,
                    format_time(one.duration.measured_ns), format_time(one.duration.predicted_ns));
  }
  return text;
}

Json pair_json(const InputPair& pair) {
  return {{"predicted", pair.predicted_ns},
          {"measured", pair.measured_ns},
          {"change", change_of(pair)}};
}

}  // namespace

InputComparison compare_inputs(const InputRun& predicted, const InputRun& measured,
                               const std::string& first, const std::string& second) {
  check_same_program(predicted.program, measured.program, first, second);
  const InputMetrics one = measure(predicted), other = measure(measured);
  InputComparison comparison;
  comparison.makespan = {one.makespan_ns, other.makespan_ns};
  comparison.steady_iteration = {one.steady_iteration_ns, other.steady_iteration_ns};
  const auto mean = [&](RankValue value, Kind kind = Kind::NEXT) {
    return mean_pair(one, other, value, kind);
  };
  comparison.busy = mean([](const InputMetrics::Rank& rank, Kind) { return rank.busy_ns; });
  for (const Kind kind : input_kinds) {
    InputComparison::KindRow row;
    row.kind = kind;
    row.total = mean([](const InputMetrics::Rank& rank,
                        Kind k) { return rank.total[static_cast<std::size_t>(k)]; },
                     kind);
    row.busy = mean([](const InputMetrics::Rank& rank,
                       Kind k) { return rank.busy_by_kind[static_cast<std::size_t>(k)]; },
                    kind);
    row.exposed = mean([](const InputMetrics::Rank& rank,
                          Kind k) { return rank.exposed[static_cast<std::size_t>(k)]; },
                       kind);
    row.hidden =
        mean([](const InputMetrics::Rank& rank, Kind k) { return rank.hidden_ns(k); }, kind);
    if (row.total.predicted_ns + row.total.measured_ns > 0) comparison.kinds.push_back(row);
  }
  comparison.waits = {
      {"host", "host", mean([](const InputMetrics::Rank& rank, Kind) { return rank.host_ns; })},
      {"skew", "other ranks",
       mean([](const InputMetrics::Rank& rank, Kind) { return rank.skew_ns; })},
      {"other", "unexplained",
       mean([](const InputMetrics::Rank& rank, Kind) { return rank.other_ns; })},
      {"drain", "drain", mean([](const InputMetrics::Rank& rank, Kind) { return rank.drain_ns; })}};
  compare_actions(predicted, measured, comparison);
  return comparison;
}

std::string input_comparison_report(const InputRun& predicted, const InputRun& measured,
                                    const InputComparison& comparison, const Terminal& terminal) {
  const auto width = static_cast<std::size_t>(terminal.width);
  std::string text = bold(wrap(comparison_verdict(predicted, measured, comparison), terminal.width),
                          terminal.colour) +
                     "\n\n" + times_table(predicted, measured, comparison, width) + "\n" +
                     kinds_table(predicted, measured, comparison, width);
  if (comparison.error.count > 0) {
    text += "\n" +
            wrap(fmt::format("Durations of single actions are off by {} in the mean, {} in "
                             "the median; nine tenths by no more than {}.",
                             format_percent(comparison.error.mean),
                             format_percent(comparison.error.p50),
                             format_percent(comparison.error.p90)),
                 terminal.width) +
            "\n";
  }
  for (const std::string& more : {wrap(worst_lines(comparison), terminal.width),
                                  predicted.warnings.text() + measured.warnings.text()}) {
    if (!more.empty()) text += "\n" + more;
  }
  return text;
}

Json input_comparison_json(const InputRun& predicted, const InputRun& measured,
                           const InputComparison& comparison, const std::string& first,
                           const std::string& second) {
  const auto source = [](const InputRun& run) {
    return run.is_measured ? "measured" : "predicted";
  };
  Json json{{"format", "pipesim-input-comparison"},
            {"version", 2},
            {"files", std::vector<std::string>{first, second}},
            {"sources", std::vector<std::string>{source(predicted), source(measured)}},
            {"verdict", comparison_verdict(predicted, measured, comparison)},
            {"input_pipeline", predicted.program.name},
            {"ranks", predicted.program.ranks()},
            {"batches", predicted.program.batches},
            {"accumulate", predicted.program.accumulate},
            {"makespan_ns", pair_json(comparison.makespan)},
            {"steady_iteration_ns", pair_json(comparison.steady_iteration)},
            {"busy_ns", pair_json(comparison.busy)}};
  Json kinds = Json::array();
  for (const InputComparison::KindRow& row : comparison.kinds) {
    kinds.push_back({{"kind", kind_name(row.kind)},
                     {"total_ns", pair_json(row.total)},
                     {"busy_ns", pair_json(row.busy)},
                     {"exposed_ns", pair_json(row.exposed)},
                     {"hidden_ns", pair_json(row.hidden)}});
  }
  json["kinds"] = std::move(kinds);
  Json waits = Json::object();
  for (const InputComparison::WaitRow& row : comparison.waits) {
    waits[row.key] = pair_json(row.exposed);
  }
  json["waits_ns"] = std::move(waits);
  const InputComparison::OperationError& error = comparison.error;
  json["operation_error"] =
      error.count == 0
          ? Json(nullptr)
          : Json{{"mean_abs_fraction", error.mean}, {"p50", error.p50}, {"p90", error.p90}};
  Json worst = Json::array();
  for (const InputComparison::Difference& one : comparison.worst) {
    worst.push_back({{"rank", one.rank},
                     {"action", to_text(one.action)},
                     {"stream", input_stream_name(one.stream)},
                     {"duration_ns", pair_json(one.duration)}});
  }
  json["worst"] = std::move(worst);
  json["warnings"] = {{"predicted", warnings_json(predicted.warnings)},
                      {"measured", warnings_json(measured.warnings)}};
  return json;
}

}  // namespace pipesim
