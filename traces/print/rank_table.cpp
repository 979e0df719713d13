#include "traces/print/rank_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "traces/base/text.h"
#include "traces/bubbles.h"
#include "traces/print/timeline_panel.h"

namespace pipesim {
namespace {

// A category of bytes, as a table's column.
struct Category {
  std::string_view name;
  std::int64_t (*bytes)(const RankMemory&);
};

constexpr std::array<Category, 3> each_state{
    {{"weights", [](const RankMemory& rank) { return rank.states.weights; }},
     {"gradients", [](const RankMemory& rank) { return rank.states.gradients; }},
     {"optimizer", [](const RankMemory& rank) { return rank.states.optimizer; }}}};
constexpr std::array<Category, 1> all_states{
    {{"states", [](const RankMemory& rank) { return rank.states.total(); }}}};
constexpr std::array<Category, 7> working{
    {{"activations", [](const RankMemory& rank) { return rank.peak.bytes.activations; }},
     {"W residue", [](const RankMemory& rank) { return rank.peak.bytes.residue; }},
     {"buffers",
      [](const RankMemory& rank) {
        return rank.peak.bytes.send_buffers + rank.peak.bytes.receive_buffers;
      }},
     {"unsharded", [](const RankMemory& rank) { return rank.peak.bytes.unsharded; }},
     {"workspace", [](const RankMemory& rank) { return rank.peak.bytes.workspace; }},
     {"reserved", [](const RankMemory& rank) { return rank.reserved; }},
     {"total", [](const RankMemory& rank) { return rank.total(); }}}};

ReportRow& add_action(ReportRow& row, const Action& action) {
  return action.kind == Kind::IDLE ? row.none() : row.text(to_text(action));
}

ReportTable memory_table(const std::vector<RankMemory>& memory,
                         std::span<const Category> of_states) {
  std::vector<Category> categories(of_states.begin(), of_states.end());
  categories.insert(categories.end(), working.begin(), working.end());
  ReportTable table{"", "peak memory", {{"", "rank", Unit::index}}, {}};
  for (const Category& category : categories) {
    table.columns.push_back({"", std::string(category.name), Unit::bytes});
  }
  table.columns.push_back({"", "peak at", Unit::text});
  for (const int r : shown_ranks(static_cast<int>(memory.size()))) {
    const RankMemory& rank = memory[static_cast<std::size_t>(r)];
    ReportRow& row = table.add().number(r);
    for (const Category& category : categories) row.number(category.bytes(rank));
    add_action(row, rank.peak.action);
  }
  drop_empty_columns(table);
  return table;
}

}  // namespace

ReportTable rank_table(const std::vector<RankRun>& runs, const std::vector<int>& ranks) {
  const auto any = [&](auto has) { return runs.empty() || std::ranges::any_of(runs, has); };
  const bool has_peaks = any([](const RankRun& run) { return !run.peaks.empty(); });
  const bool has_activations = !has_peaks && any([](const RankRun& run) {
    return std::ranges::any_of(run.ranks, &RankMetrics::peak_activation_bytes);
  });
  const bool is_one = runs.size() == 1;
  ReportTable table{"ranks", "", {{"rank", "rank", Unit::index}}, {}};
  if (!is_one) table.columns.push_back({"", "run", Unit::text});
  table.columns.insert(table.columns.end(), {{"busy_ns", "busy", Unit::time},
                                             {"", "util", Unit::share, "", is_one},
                                             {"", "bubble", Unit::time, "", false}});
  constexpr std::array bubble_keys{"bubble_ns.warmup", "bubble_ns.steady", "bubble_ns.drain",
                                   "bubble_ns.p2p"};
  for (std::size_t kind = 0; kind < bubble_keys.size(); ++kind) {
    table.columns.push_back(
        {bubble_keys[kind], std::string(bubble_names[kind]), Unit::time, "bubble"});
  }
  table.columns.push_back({"collective_ns", "", Unit::time});
  table.columns.push_back({"exposed_collective_ns", "", Unit::time});
  table.columns.push_back({"peak_activation_chunks", "in flight"});
  if (has_activations) table.columns.push_back({"", "activations", Unit::bytes});
  if (has_peaks) {
    table.columns.push_back({"peak_memory_bytes", "peak", Unit::bytes});
    table.columns.push_back({"peak_action", "peak in", Unit::text, "", false, true});
  }
  for (const int r : ranks) {
    const auto at = static_cast<std::size_t>(r);
    for (const RankRun& run : runs) {
      if (at >= run.ranks.size()) continue;
      const RankMetrics& rank = run.ranks[at];
      ReportRow& row = table.add().number(r);
      if (!is_one) row.text(run.name);
      row.number(rank.busy_ns);
      row.fraction(fraction_of(rank.busy_ns, run.makespan_ns));
      row.number(rank.bubble.total_ns());
      for (const std::int64_t ns : rank.bubble.by_kind()) row.number(ns);
      if (at < run.collectives.size() && run.collectives[at].total_ns > 0) {
        row.number(run.collectives[at].total_ns).number(run.collectives[at].exposed_ns());
      } else {
        row.none().none();
      }
      row.number(rank.peak_activation_chunks);
      if (has_activations) row.number(rank.peak_activation_bytes);
      if (!has_peaks) continue;
      if (run.peaks.empty()) {
        row.none().none();
      } else {
        add_action(row.number(run.peaks[at].total), run.peaks[at].action);
      }
    }
  }
  return table;
}

std::string left_out_ranks(std::size_t shown, std::size_t all) {
  if (shown >= all) return {};
  return fmt::format("{} of {} ranks; --json lists them all.", shown, all);
}

std::string rank_text(const Metrics& metrics, int width) {
  const std::vector<int> shown = shown_ranks(static_cast<int>(metrics.ranks.size()));
  ReportTable table = rank_table({{"", metrics.makespan_ns, metrics.ranks}}, shown);
  table.note = left_out_ranks(shown.size(), metrics.ranks.size());
  return to_text(table, no_limit, width);
}

std::string memory_text(const std::vector<RankMemory>& memory, int width) {
  // Whether there is more than the activations.
  const bool is_worth_it = std::ranges::any_of(
      memory, [](const RankMemory& rank) { return rank.total() != rank.peak.bytes.activations; });
  if (!is_worth_it) return {};
  std::string text = to_text(memory_table(memory, each_state), no_limit, width);
  const auto lines = std::ranges::count(text, '\n');
  const auto most = std::ssize(shown_ranks(static_cast<int>(memory.size()))) + 2;
  if (lines > most) text = to_text(memory_table(memory, all_states), no_limit, width);
  return text + "\n";
}

}  // namespace pipesim
