#include "traces/print/tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "traces/base/text.h"
#include "traces/print/picture.h"

namespace pipesim {
namespace {

// The width of a column of bytes: "123.4 MiB" has nine characters.
std::size_t width_of(std::string_view name) { return std::max<std::size_t>(name.size(), 9); }

}  // namespace

std::string TableUnit::text(std::int64_t time_ns) const {
  if (time_ns == 0) return "-";
  return fmt::format("{:.{}f}", static_cast<double>(time_ns) / ns, decimals);
}

TableUnit table_unit(std::int64_t longest_ns) {
  if (longest_ns < 10'000) return {"ns", 1, 0};
  if (longest_ns < 10'000'000) return {"us", 1e3, 2};
  if (longest_ns < 1'000'000'000) return {"ms", 1e6, 3};
  if (longest_ns < 100'000'000'000) return {"ms", 1e6, 2};
  if (longest_ns < 10'000'000'000'000) return {"s", 1e9, 3};
  return {"s", 1e9, 0};
}

std::string rank_table(const Metrics& metrics) {
  const std::vector<int> shown = shown_ranks(static_cast<int>(metrics.ranks.size()));
  const TableUnit unit = table_unit(metrics.makespan_ns);
  const bool bytes = metrics.peak_activation_bytes() > 0;
  std::string out = fmt::format("{:>21}{:-^35}{}\n", "", fmt::format(" bubble, {} ", unit.name),
                                bytes ? "  - peak in flight -" : " in flight");
  out += fmt::format("rank {:>9}   util {:>8} {:>8} {:>8} {:>8} {:>8}{}\n",
                     fmt::format("busy, {}", unit.name), "warm-up", "steady", "drain", "p2p",
                     "chunks", bytes ? "      bytes" : "");
  for (const int r : shown) {
    const RankMetrics& rank = metrics.ranks[static_cast<std::size_t>(r)];
    out += fmt::format("{:>4} {:>9} {:>3.0f} % {:>8} {:>8} {:>8} {:>8} {:>8}", r,
                       unit.text(rank.busy_ns), metrics.utilisation(r) * 100,
                       unit.text(rank.bubble.warmup_ns), unit.text(rank.bubble.steady_ns),
                       unit.text(rank.bubble.drain_ns), unit.text(rank.bubble.p2p_ns),
                       format_count(rank.peak_activation_chunks));
    out += bytes ? fmt::format(" {:>10}\n", format_bytes(rank.peak_activation_bytes)) : "\n";
  }
  if (shown.size() < metrics.ranks.size()) {
    out += fmt::format("     {} of {} ranks; --json lists them all\n", shown.size(),
                       metrics.ranks.size());
  }
  return out;
}

std::string bubble_lines(const Metrics& metrics) {
  return fmt::format(
      "bubble  global {:>7}  of all ranks' time, until the last end\n"
      "        span   {:>7}  of the longest span, first start to last end, rank {}\n",
      format_percent(metrics.global_bubble()), format_percent(metrics.span_bubble()),
      metrics.widest_rank);
}

std::string critical_path_line(const Metrics& metrics) {
  const CriticalPath& path = metrics.critical_path;
  if (path.p2p_ns == 0) return {};
  return fmt::format("critical path  {} compute, {} transfers{}\n", format_time(path.compute_ns),
                     format_time(path.p2p_ns),
                     path.other_ns > 0 ? ", " + format_time(path.other_ns) + " other" : "");
}

std::string taken_line(const RecordedRun& run) {
  const double fraction = preempted_fraction({run.spans.data(), run.spans.size()});
  if (fraction < disturbed) return {};
  return fmt::format(
      "Other processes took {} of the ranks' compute time: measure again with "
      "nothing else running, and one processor per rank.\n",
      format_percent(fraction));
}

std::string memory_table(const std::vector<RankMemory>& memory, int width) {
  struct Column {
    std::string_view name;
    std::int64_t (*bytes)(const RankMemory&);
  };
  const std::vector<Column> working{
      {"activations", [](const RankMemory& rank) { return rank.peak.bytes.activations; }},
      {"W residue", [](const RankMemory& rank) { return rank.peak.bytes.residue; }},
      {"buffers",
       [](const RankMemory& rank) {
         return rank.peak.bytes.send_buffers + rank.peak.bytes.receive_buffers;
       }},
      {"unsharded", [](const RankMemory& rank) { return rank.peak.bytes.unsharded; }},
      {"workspace", [](const RankMemory& rank) { return rank.peak.bytes.workspace; }},
      {"reserved", [](const RankMemory& rank) { return rank.reserved; }},
      {"total", [](const RankMemory& rank) { return rank.total(); }}};
  const std::vector<Column> each_state{
      {"weights", [](const RankMemory& rank) { return rank.states.weights; }},
      {"gradients", [](const RankMemory& rank) { return rank.states.gradients; }},
      {"optimizer", [](const RankMemory& rank) { return rank.states.optimizer; }}};
  const std::vector<Column> all_states{
      {"states", [](const RankMemory& rank) { return rank.states.total(); }}};

  const std::vector<int> shown = shown_ranks(static_cast<int>(memory.size()));
  const auto table_of = [&](std::vector<Column> columns) {
    columns.insert(columns.end(), working.begin(), working.end());
    std::erase_if(columns, [&](const Column& column) {
      return std::ranges::none_of(memory,
                                  [&](const RankMemory& rank) { return column.bytes(rank) > 0; });
    });
    std::vector<std::string> lines{"rank"};
    // If there are only activations, they are in the first table.
    const bool has_others = std::ranges::any_of(columns, [](const Column& column) {
      return column.name != "activations" && column.name != "total";
    });
    if (!has_others) return std::vector<std::string>();
    for (const Column& column : columns) {
      lines[0] += fmt::format(" {:>{}}", column.name, width_of(column.name));
    }
    lines[0] += "  peak at";
    for (const int r : shown) {
      const RankMemory& rank = memory[static_cast<std::size_t>(r)];
      std::string& line = lines.emplace_back(fmt::format("{:>4}", r));
      for (const Column& column : columns) {
        const std::int64_t bytes = column.bytes(rank);
        line +=
            fmt::format(" {:>{}}", bytes == 0 ? "-" : format_bytes(bytes), width_of(column.name));
      }
      line += "  " + (rank.peak.total == 0 ? "-" : to_text(rank.peak.action));
    }
    return lines;
  };
  std::vector<std::string> lines = table_of(each_state);
  const auto is_wide = [&](const std::string& line) {
    return line.size() > static_cast<std::size_t>(width);
  };
  if (std::ranges::any_of(lines, is_wide)) lines = table_of(all_states);
  if (lines.empty()) return {};
  return fmt::format("peak memory per rank\n{}\n\n", fmt::join(lines, "\n"));
}

}  // namespace pipesim
