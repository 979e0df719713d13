#include "traces/print/input_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/base/text.h"
#include "traces/print/input_picture.h"
#include "traces/print/rank_table.h"
#include "traces/print/timeline_panel.h"

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
  return part == 0 ? "-" : format_percent(fraction_of(part, whole));
}

// What compute streams wait for beside results.
constexpr std::array<std::pair<std::string_view, std::int64_t InputMetrics::Rank::*>, 4> waits{
    {{"host", &InputMetrics::Rank::host_ns},
     {"other ranks", &InputMetrics::Rank::skew_ns},
     {"unexplained", &InputMetrics::Rank::other_ns},
     {"drain", &InputMetrics::Rank::drain_ns}}};

// The time of a batch, as a mean over ranks and batches, including fill and drain.
ReportTable kind_table(const InputRun& run, const InputMetrics& metrics) {
  const auto batches = std::max<std::int64_t>(run.program.batches, 1);
  ReportTable table{"",
                    "",
                    {{"", "a batch", Unit::text},
                     {"", "total", Unit::time},
                     {"", "busy", Unit::time},
                     {"", "hidden", Unit::time},
                     {"", "exposed", Unit::time},
                     {"", "of all time", Unit::share}},
                    {}};
  const auto add = [&](std::string_view name, std::int64_t all_ns, std::int64_t busy_ns,
                       std::int64_t exposed_ns, std::int64_t hidden_ns) {
    ReportRow& row = table.add().text(name);
    for (const std::int64_t ns : {all_ns, busy_ns, hidden_ns, exposed_ns}) row.number(ns / batches);
    row.fraction(fraction_of(busy_ns + exposed_ns, metrics.makespan_ns));
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
  for (const auto& wait : waits) {
    const auto part = [&](const auto& rank) { return rank.*wait.second; };
    add(wait.first, 0, 0, mean_over_ranks(metrics, part), 0);
  }
  return table;
}

ReportTable input_rank_table(const InputRun& run, const InputMetrics& metrics) {
  ReportTable table{"",
                    "",
                    {{"", "rank", Unit::index},
                     {"", "busy", Unit::time},
                     {"", "util", Unit::share},
                     {"", "exposed", Unit::time}},
                    {}};
  for (const auto& [name, unused] : waits) {
    table.columns.push_back({"", std::string(name), Unit::time});
  }
  table.columns.push_back({"", "in flight"});
  table.columns.push_back({"", "memory", Unit::bytes});
  const std::vector<int> shown = shown_ranks(static_cast<int>(metrics.ranks.size()));
  for (const int r : shown) {
    const InputMetrics::Rank& rank = metrics.ranks[static_cast<std::size_t>(r)];
    ReportRow& row = table.add().number(r).number(rank.busy_ns);
    row.fraction(fraction_of(rank.busy_ns, metrics.makespan_ns)).number(sum_of(rank.exposed));
    for (const auto& [unused, part] : waits) row.number(rank.*part);
    row.number(rank.batches_in_flight);
    row.number(run.memory.empty() ? 0 : run.memory[static_cast<std::size_t>(r)].total());
  }
  drop_empty_columns(table);
  table.note = left_out_ranks(shown.size(), metrics.ranks.size());
  return table;
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
                     to_text(kind_table(run, metrics), no_limit, terminal.width) + "\n" +
                     to_text(input_rank_table(run, metrics), no_limit, terminal.width);
  const std::string losses = wrap(losses_line(run), terminal.width);
  return losses.empty() ? text : text + "\n" + losses;
}

std::string input_report(const InputRun& run, const InputMetrics& metrics,
                         const Terminal& terminal) {
  return bold(wrap(input_verdict(run, metrics), terminal.width), terminal.colour) + "\n\n" +
         input_tables(run, metrics, terminal);
}

}  // namespace pipesim
