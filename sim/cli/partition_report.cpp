#include "sim/cli/partition_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/cli/report.h"
#include "sim/cost/estimate/error_band.h"
#include "sim/cost/layout.h"
#include "sim/request/result_json.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/picture.h"
#include "traces/print/tables.h"

namespace pipesim::cli {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The splits, with their names.
std::vector<std::pair<std::string, const Split*>> splits_of(const Partition& partition) {
  std::vector<std::pair<std::string, const Split*>> all{{"even", &partition.even}};
  if (partition.given) all.emplace_back("given", &*partition.given);
  all.emplace_back("balanced", &partition.balanced);
  return all;
}

std::int64_t time_of(const Split& split, int stage) {
  const StageCosts& costs = split.costs.stages[at(stage)];
  return costs.duration_ns(Kind::F) + costs.duration_ns(Kind::B);
}

// If not all stages are shown, the slowest of each split are.
std::vector<int> shown_stages(const PartitionView& view) {
  const int stages = view.problem.schedule.stages();
  std::vector<int> shown = shown_ranks(stages);
  for (const Split* split : {&view.partition.even, &view.partition.balanced}) {
    int slowest = 0;
    for (int s = 1; s < stages; ++s) {
      if (time_of(*split, s) > time_of(*split, slowest)) slowest = s;
    }
    shown.push_back(slowest);
  }
  std::ranges::sort(shown);
  shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
  return shown;
}

// As a fraction of the even split's; negative if it takes longer.
double gain_of(const Partition& partition) {
  const auto even = static_cast<double>(partition.even.metrics.makespan_ns);
  if (even == 0) return 0;
  return 1 - static_cast<double>(partition.balanced.metrics.makespan_ns) / even;
}

// In Megatron-LM's form, whose stages are dealt out in a loop; empty if layers are not an
// embedding, blocks and a head.
std::string megatron_layout_of(const PartitionView& view) {
  const auto layers = static_cast<int>(view.problem.layers.size());
  const Placement& placement = view.problem.schedule.placement;
  if (layers < 2 || !placement.is_loop() || view.layer_name(0) != "embedding" ||
      view.layer_name(layers - 1) != "head") {
    return {};
  }
  return to_megatron_layout(view.partition.balanced.layout);
}

std::string verdict(const PartitionView& view, const Terminal& terminal) {
  const Partition& partition = view.partition;
  std::string text =
      fmt::format("{}, {}, {}: ", printable(view.name),
                  plural(static_cast<std::int64_t>(view.problem.layers.size()), "layer"),
                  schedule_text(view.choice, view.problem.transfers));
  const double gain = gain_of(partition) * 100;
  const auto band = view.model ? error_band(*view.model) : std::nullopt;
  const std::string time = format_time(partition.balanced.metrics.makespan_ns) + band_text(band);
  if (partition.balanced.layout == partition.even.layout) {
    text += fmt::format("{} per iteration; the even split is the best found", time);
  } else {
    text += fmt::format("{} per iteration, {:.1f} % {} than split evenly", time, std::abs(gain),
                        gain >= 0 ? "less" : "more");
  }
  if (view.model) text += "; " + validation_text(view.model->cluster(), band);
  return bold(wrap(text, terminal.width), terminal.colour) + "\n\n";
}

std::string splits_table(const PartitionView& view) {
  const auto splits = splits_of(view.partition);
  const bool has_bytes = std::ranges::any_of(
      splits, [](const auto& split) { return split.second->peak_memory_bytes() > 0; });
  const auto& cap = view.problem.memory_cap;
  std::string out = fmt::format("{:<8} {:>11} {:>8} {:>11}{}\n", "split", "iteration", "bubble",
                                "bottleneck", has_bytes ? "   peak memory" : "");
  for (const auto& [name, split] : splits) {
    out += fmt::format("{:<8} {:>11} {:>8} {:>11}", name, format_time(split->metrics.makespan_ns),
                       format_percent(split->metrics.global_bubble()),
                       format_time(split->bottleneck_ns));
    if (has_bytes) {
      const std::int64_t peak = split->peak_memory_bytes();
      out += fmt::format(" {:>13}{}", format_bytes(peak), cap && peak > *cap ? " !" : "");
    }
    out += "\n";
  }
  return out + "\n";
}

// A bar of F and B in proportion to its times.
std::string bar(const StageCosts& costs, std::int64_t longest_ns, int width, bool colour) {
  const auto cells = [&](std::int64_t ns) {
    if (longest_ns == 0) return 0LL;
    return std::llround(static_cast<double>(ns) / static_cast<double>(longest_ns) * width);
  };
  const auto all = cells(costs.duration_ns(Kind::F) + costs.duration_ns(Kind::B));
  const auto forward = std::min(all, cells(costs.duration_ns(Kind::F)));
  return paint(std::string(static_cast<std::size_t>(forward), 'F'), Kind::F, colour) +
         paint(std::string(static_cast<std::size_t>(all - forward), 'B'), Kind::B, colour) +
         std::string(static_cast<std::size_t>(width - all), ' ');
}

// The time of a microbatch in each stage, evenly split and balanced, on one scale.
std::string picture(const PartitionView& view, const Terminal& terminal) {
  const Placement& placement = view.problem.schedule.placement;
  const Split& even = view.partition.even;
  const Split& balanced = view.partition.balanced;
  std::int64_t longest = 0;
  for (int s = 0; s < placement.stages(); ++s) {
    longest = std::max({longest, time_of(even, s), time_of(balanced, s)});
  }
  const TableUnit unit = table_unit(longest);
  constexpr int margin = 10;
  constexpr int number = 9;
  const int width = std::clamp((terminal.width - margin) / 2 - number - 2, 4, 60);
  const std::vector<int> shown = shown_stages(view);
  std::string out = fmt::format("stage rank  {:<{}}  balanced, {} per microbatch\n", "even",
                                width + number, unit.name);
  for (const int s : shown) {
    out += fmt::format("{:>5} {:>4}", s, placement.rank_of(s));
    for (const Split* split : {&even, &balanced}) {
      out += fmt::format("  {}{:>{}}",
                         bar(split->costs.stages[at(s)], longest, width, terminal.colour),
                         unit.text(time_of(*split, s)), number);
    }
    out += "\n";
  }
  if (shown.size() < at(placement.stages())) {
    out += fmt::format("{} of {} stages\n", shown.size(), placement.stages());
  }
  return out + "\n";
}

// The layers of each balanced stage, and the bytes it sends to the next.
std::string stages_table(const PartitionView& view, const Terminal& terminal) {
  const Split& split = view.partition.balanced;
  const int stages = view.problem.schedule.stages();
  const std::vector<int> shown = shown_stages(view);
  std::string out =
      fmt::format("{:>5} {:>13} {:>11}  {}\n", "stage", "layers", "sends", "from - to");
  int first = 0;
  for (int s = 0; s < stages; ++s) {
    const int size = split.layout[at(s)];
    const int last = first + size - 1;
    if (std::ranges::binary_search(shown, s)) {
      const std::int64_t bytes = split.costs.stages[at(s)].output_bytes;
      const std::string range =
          size == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
      std::string line = fmt::format("{:>5} {:>13} {:>11}  {}", s, range,
                                     s + 1 < stages && bytes > 0 ? format_bytes(bytes) : "-",
                                     view.layer_name(first));
      if (size > 1) line += fmt::format(" - {}", view.layer_name(last));
      if (line.size() > at(terminal.width)) line = line.substr(0, at(terminal.width) - 3) + "...";
      out += line + "\n";
    }
    first += size;
  }
  return out + "\n";
}

// What limits an iteration, and how certain that is.
std::string sentences(const PartitionView& view) {
  const Partition& partition = view.partition;
  const Split& split = partition.balanced;
  const Placement& placement = view.problem.schedule.placement;
  std::vector<std::int64_t> rank_ns(at(placement.ranks()), 0);
  for (int s = 0; s < placement.stages(); ++s)
    rank_ns[at(placement.rank_of(s))] += time_of(split, s);
  const auto slowest = std::ranges::max_element(rank_ns);
  const bool is_rank = *slowest >= split.bottleneck_ns;
  std::string out = fmt::format(
      "The bottleneck is {}, {} per microbatch.",
      is_rank ? fmt::format("rank {}", slowest - rank_ns.begin()) : "messages between two ranks",
      format_time(split.bottleneck_ns));
  const std::int64_t least = partition.bottleneck_at_least_ns;
  if (split.bottleneck_ns == least) {
    out += " No split has a smaller one.";
  } else {
    out += fmt::format(" No split has one below {}.", format_time(least));
  }
  switch (partition.end) {
    case SearchEnd::all_tried:
      out += fmt::format(" All layouts, {}, were simulated: none is better.",
                         format_count(partition.tried));
      break;
    case SearchEnd::settled:
      out += fmt::format(" {} tried; the last of them gained nothing.",
                         plural(partition.tried, "layout"));
      break;
    case SearchEnd::trials:
      out += fmt::format(" The search ended after {}; --trials lets it go on.",
                         plural(partition.tried, "layout"));
      break;
    case SearchEnd::time:
      out += fmt::format(
          " The search ran out of time after {}, and another run may end elsewhere; "
          "--budget gives it more.",
          plural(partition.tried, "layout"));
      break;
    case SearchEnd::not_searched: break;
  }
  out += "\n";
  if (const auto& cap = view.problem.memory_cap) {
    const auto verdict_of = [&](const Split& one) {
      const std::int64_t peak = one.peak_memory_bytes();
      return peak <= *cap ? fmt::format("needs {}", format_bytes(peak))
                          : fmt::format("would need {}, {} too much", format_bytes(peak),
                                        format_bytes(peak - *cap));
    };
    out += fmt::format("Of {} per rank it {}; the even split {}.\n", format_bytes(*cap),
                       verdict_of(split), verdict_of(partition.even));
  }
  return out;
}

Json split_json(const Split& split, const std::optional<std::int64_t>& cap) {
  Json ranks = Json::array();
  for (std::size_t r = 0; r < split.memory.size(); ++r) {
    ranks.push_back({{"rank", r},
                     {"busy_ns", split.metrics.ranks[r].busy_ns},
                     {"peak_memory_bytes", split.memory[r].total()}});
  }
  Json json{{"layout", split.layout},
            {"makespan_ns", split.metrics.makespan_ns},
            {"bubble_fraction",
             {{"global", split.metrics.global_bubble()}, {"span", split.metrics.span_bubble()}}},
            {"bottleneck_ns", split.bottleneck_ns},
            {"peak_memory_bytes", split.peak_memory_bytes()}};
  if (cap) json["fits"] = split.peak_memory_bytes() <= *cap;
  json["ranks"] = std::move(ranks);
  return json;
}

}  // namespace

std::string partition_report(const PartitionView& view, const Terminal& terminal) {
  std::string out = verdict(view, terminal) + splits_table(view) + picture(view, terminal) +
                    stages_table(view, terminal) + wrap(sentences(view), terminal.width);
  out += fmt::format("\nlayout    {}\n", fmt::join(view.partition.balanced.layout, ","));
  const std::string megatron = megatron_layout_of(view);
  if (!megatron.empty()) out += fmt::format("Megatron  {}\n", megatron);
  return out;
}

std::string partition_json(const PartitionView& view) {
  const Partition& partition = view.partition;
  const Schedule& schedule = view.problem.schedule;
  const Split& balanced = partition.balanced;
  Json json{{"format", "pipesim-partition"},
            {"version", 1},
            {"name", view.name},
            {"schedule", schedule.name},
            {"stages", schedule.ranks()},
            {"virtual_stages", schedule.placement.virtual_stages()},
            {"microbatches", schedule.microbatches},
            {"layers", view.problem.layers.size()},
            {"objective", view.objective == Objective::iteration ? "iteration" : "bottleneck"},
            {"search", {{"end", search_end_name(partition.end)}, {"tried", partition.tried}}},
            {"layout", balanced.layout}};
  const std::string megatron = megatron_layout_of(view);
  json["megatron_layout"] = megatron.empty() ? Json(nullptr) : Json(megatron);
  json["gain_fraction"] = gain_of(partition);
  json["bottleneck_at_least_ns"] = partition.bottleneck_at_least_ns;
  for (const auto& [name, split] : splits_of(partition)) {
    json[name] = split_json(*split, view.problem.memory_cap);
  }
  Json parts = Json::array();
  int first = 0;
  for (int s = 0; s < schedule.stages(); ++s) {
    const StageCosts& costs = balanced.costs.stages[at(s)];
    const int size = balanced.layout[at(s)];
    parts.push_back({{"stage", s},
                     {"rank", schedule.placement.rank_of(s)},
                     {"first_layer", first},
                     {"layers", size},
                     {"from", view.layer_name(first)},
                     {"to", view.layer_name(first + size - 1)},
                     {"forward_ns", costs.duration_ns(Kind::F)},
                     {"backward_ns", costs.duration_ns(Kind::B)},
                     {"output_bytes", costs.output_bytes}});
    first += size;
  }
  if (view.model) json["error_band"] = error_band_json(error_band(*view.model));
  json["parts"] = std::move(parts);
  return json.dump(2) + "\n";
}

}  // namespace pipesim::cli
