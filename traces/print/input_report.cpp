#include "traces/print/input_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/base/text.h"
#include "traces/print/columns.h"
#include "traces/print/input_picture.h"
#include "traces/print/picture.h"
#include "traces/print/tables.h"

namespace pipesim {
namespace {

std::int64_t sum_of(const InputTimes& times) {
  return std::accumulate(times.begin(), times.end(), std::int64_t{0});
}

// Whole nanoseconds of a mean over ranks.
template <typename Value>
std::int64_t mean_over_ranks(const InputMetrics& metrics, Value value) {
  std::int64_t sum = 0;
  for (const InputMetrics::Rank& rank : metrics.ranks) sum += value(rank);
  return metrics.ranks.empty() ? 0 : sum / static_cast<std::int64_t>(metrics.ranks.size());
}

std::string share_of(std::int64_t part, std::int64_t whole) {
  return part == 0 || whole == 0
             ? "-"
             : format_percent(static_cast<double>(part) / static_cast<double>(whole));
}

// One group each, so that they may go to different pages.
std::vector<ColumnGroup> apart(const std::vector<Column>& columns) {
  std::vector<ColumnGroup> groups;
  for (const Column& column : columns) groups.push_back({"", {column}});
  return groups;
}

// The time of a batch, as a mean over ranks and batches, including fill and drain.
std::string kind_table(const InputRun& run, const InputMetrics& metrics, int width) {
  const auto batches = std::max<std::int64_t>(run.program.batches, 1);
  TableUnit unit = table_unit(metrics.makespan_ns / batches);
  std::vector<std::string> labels{"a batch, " + std::string(unit.name)};
  Column total{"total", {}}, busy{"busy", {}}, hidden{"hidden", {}}, exposed{"exposed", {}},
      share{"of all time", {}};
  const auto add = [&](std::string_view name, std::int64_t all_ns, std::int64_t busy_ns,
                       std::int64_t exposed_ns, std::int64_t hidden_ns) {
    labels.emplace_back(name);
    total.cells.push_back(unit.text(all_ns / batches));
    busy.cells.push_back(unit.text(busy_ns / batches));
    hidden.cells.push_back(unit.text(hidden_ns / batches));
    exposed.cells.push_back(unit.text(exposed_ns / batches));
    share.cells.push_back(share_of(busy_ns + exposed_ns, metrics.makespan_ns));
  };
  for (const Kind kind : input_kinds) {
    const auto mean = [&](auto times) {
      return mean_over_ranks(metrics, [&](const InputMetrics::Rank& rank) {
        return (rank.*times)[static_cast<std::size_t>(kind)];
      });
    };
    add(kind_name(kind), mean(&InputMetrics::Rank::total), mean(&InputMetrics::Rank::busy_by_kind),
        mean(&InputMetrics::Rank::exposed),
        mean_over_ranks(metrics, [&](const auto& rank) { return rank.hidden_ns(kind); }));
  }
  const auto add_wait = [&](std::string_view name, std::int64_t InputMetrics::Rank::*part) {
    const std::int64_t mean =
        mean_over_ranks(metrics, [&](const auto& rank) { return rank.*part; });
    add(name, 0, 0, mean, 0);
  };
  add_wait("host", &InputMetrics::Rank::host_ns);
  add_wait("other ranks", &InputMetrics::Rank::skew_ns);
  add_wait("unexplained", &InputMetrics::Rank::other_ns);
  add_wait("drain", &InputMetrics::Rank::drain_ns);
  return table(labels, apart({total, busy, hidden, exposed, share}),
               static_cast<std::size_t>(width));
}

std::string input_rank_table(const InputRun& run, const InputMetrics& metrics, int width) {
  TableUnit unit = table_unit(metrics.makespan_ns);
  const std::vector<int> shown = shown_ranks(static_cast<int>(metrics.ranks.size()));
  std::vector<std::string> labels{"rank, " + std::string(unit.name)};
  Column busy{"busy", {}}, used{"util", {}}, exposed{"exposed", {}}, host{"host", {}},
      skew{"other ranks", {}}, other{"unexplained", {}}, drain{"drain", {}},
      flight{"in flight", {}}, memory{"memory", {}};
  for (const int r : shown) {
    const InputMetrics::Rank& rank = metrics.ranks[static_cast<std::size_t>(r)];
    labels.push_back(std::to_string(r));
    busy.cells.push_back(unit.text(rank.busy_ns));
    used.cells.push_back(share_of(rank.busy_ns, metrics.makespan_ns));
    exposed.cells.push_back(unit.text(sum_of(rank.exposed)));
    host.cells.push_back(unit.text(rank.host_ns));
    skew.cells.push_back(unit.text(rank.skew_ns));
    other.cells.push_back(unit.text(rank.other_ns));
    drain.cells.push_back(unit.text(rank.drain_ns));
    flight.cells.push_back(std::to_string(rank.batches_in_flight));
    memory.cells.push_back(
        run.memory.empty() ? "-" : format_bytes(run.memory[static_cast<std::size_t>(r)].total()));
  }
  std::vector<Column> columns{busy, used, exposed, host, skew, other, drain, flight, memory};
  std::erase_if(columns, [](const Column& column) {
    return std::ranges::all_of(column.cells, [](const auto& cell) { return cell == "-"; });
  });
  std::string text = table(labels, apart(columns), static_cast<std::size_t>(width));
  if (shown.size() < metrics.ranks.size()) {
    text +=
        fmt::format("{} of {} ranks; --json lists them all\n", shown.size(), metrics.ranks.size());
  }
  return text;
}

// The longest part of waits, in words.
std::string most_exposed(const InputMetrics& metrics) {
  std::pair<std::int64_t, std::string> most;
  const auto consider = [&](std::string_view name, auto part) {
    const std::int64_t mean = mean_over_ranks(metrics, part);
    if (mean > most.first) most = {mean, std::string(name)};
  };
  for (const Kind kind : input_kinds) {
    consider(kind_name(kind),
             [&](const auto& rank) { return rank.exposed[static_cast<std::size_t>(kind)]; });
  }
  consider("the host's calls", [](const auto& rank) { return rank.host_ns; });
  consider("other ranks", [](const auto& rank) { return rank.skew_ns; });
  if (most.first == 0) return {};
  return fmt::format(", most of it {} ({})", most.second,
                     share_of(most.first, metrics.makespan_ns));
}

std::string losses_line(const InputRun& run) {
  if (run.losses.empty()) return {};
  return fmt::format("loss    {:.6g} of the first batch, {:.6g} of the last\n", run.losses.front(),
                     run.losses.back());
}

}  // namespace

std::string input_verdict(const InputRun& run, const InputMetrics& metrics) {
  const InputProgram& program = run.program;
  std::string text = printable(program.name) + ", ";
  if (!run.model.empty()) text += printable(run.model) + ", ";
  text += fmt::format("{}, {}: {} per batch", plural(program.ranks(), "rank"),
                      plural(program.batches, "batch", "batches"),
                      format_time(metrics.steady_iteration_ns));
  if (metrics.samples_per_second > 0) {
    text += fmt::format(", {} samples/s", format_rounded(metrics.samples_per_second));
  }
  const std::int64_t busy = mean_over_ranks(metrics, [](const auto& rank) { return rank.busy_ns; });
  if (busy == 0) return text + "; compute streams are never busy.";
  text += fmt::format("; compute streams are busy {} of {}", share_of(busy, metrics.makespan_ns),
                      format_time(metrics.makespan_ns));
  const std::int64_t exposed = metrics.makespan_ns - busy;
  if (exposed > 0) {
    text += fmt::format(", the rest is exposed{}", most_exposed(metrics));
  }
  return text + ".";
}

std::string input_tables(const InputRun& run, const InputMetrics& metrics,
                         const Terminal& terminal) {
  std::string text = input_picture(run, 0, terminal) + "\n" +
                     kind_table(run, metrics, terminal.width) + "\n" +
                     input_rank_table(run, metrics, terminal.width);
  const std::string losses = wrap(losses_line(run), terminal.width);
  return losses.empty() ? text : text + "\n" + losses;
}

std::string input_report(const InputRun& run, const InputMetrics& metrics,
                         const Terminal& terminal) {
  return bold(wrap(input_verdict(run, metrics), terminal.width), terminal.colour) + "\n\n" +
         input_tables(run, metrics, terminal);
}

}  // namespace pipesim
