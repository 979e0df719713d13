#include "sim/cli/explanation_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "traces/base/text.h"
#include "traces/print/picture.h"
#include "traces/print/tables.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

// ---- Tables whose columns continue below where a page is too narrow

struct Column {
  std::string name;
  std::vector<std::string> cells;
};

// Columns that stay together, under one title.
struct Group {
  std::string title;
  std::vector<Column> columns;
};

std::size_t width_of(const Column& column) {
  std::size_t width = column.name.size();
  for (const std::string& cell : column.cells) width = std::max(width, cell.size());
  return width;
}

constexpr std::size_t gap = 2;  // before a group; between its columns 1

std::size_t width_of(const Group& group) {
  std::size_t width = gap - 1;
  for (const Column& column : group.columns) width += 1 + width_of(column);
  return std::max(width, group.title.empty() ? 0 : gap + group.title.size() + 4);
}

// Some of a table's groups side by side, without the rows that none of them has.
// `labels` name the rows; the first one heads them.
std::string part_of_table(const std::vector<std::string>& labels, std::span<const Group> groups,
                          std::size_t margin) {
  std::string titles(margin, ' ');
  std::vector<std::string> lines;
  for (const std::string& label : labels) lines.push_back(fmt::format("{:<{}}", label, margin));
  std::vector<bool> is_empty(labels.size(), true);
  is_empty[0] = false;
  for (const Group& group : groups) {
    titles += std::string(gap, ' ');
    titles += group.title.empty()
                  ? std::string(width_of(group) - gap, ' ')
                  : fmt::format("{:-^{}}", " " + group.title + " ", width_of(group) - gap);
    // The first column has what a wide title leaves.
    std::size_t wide = width_of(group);
    for (const Column& column : group.columns) wide -= 1 + width_of(column);
    for (const Column& column : group.columns) {
      wide += 1 + width_of(column);
      lines[0] += fmt::format("{:>{}}", column.name, wide);
      for (std::size_t i = 0; i < column.cells.size(); ++i) {
        lines[i + 1] += fmt::format("{:>{}}", column.cells[i], wide);
        if (column.cells[i] != "-") is_empty[i + 1] = false;
      }
      wide = 0;
    }
  }
  std::string out;
  const auto add = [&](std::string line) {
    line.resize(line.find_last_not_of(' ') + 1);
    if (!line.empty()) out += line + "\n";
  };
  add(titles);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!is_empty[i]) add(lines[i]);
  }
  return out;
}

// Groups that a page is too narrow for stand below.
std::string table(const std::vector<std::string>& labels, const std::vector<Group>& groups,
                  std::size_t width) {
  std::size_t margin = 0;
  for (const std::string& label : labels) margin = std::max(margin, label.size());
  std::string out;
  for (std::size_t first = 0; first < groups.size();) {
    std::size_t last = first;
    for (std::size_t used = margin; last < groups.size(); ++last) {
      used += width_of(groups[last]);
      if (last > first && used > width) break;
    }
    out += (out.empty() ? "" : "\n") +
           part_of_table(labels, std::span(groups).subspan(first, last - first), margin);
    first = last;
  }
  return out;
}

std::string share(std::int64_t part, std::int64_t whole) {
  if (part == 0 || whole == 0) return "-";
  return fmt::format("{:.1f}", static_cast<double>(part) / static_cast<double>(whole) * 100);
}

// ---- Time

std::vector<std::size_t> uses_in(const std::vector<TimeUses>& all) {
  std::vector<std::size_t> used;
  for (std::size_t u = 0; u < time_use_count; ++u) {
    if (std::ranges::any_of(all, [&](const TimeUses& uses) { return uses[u] != 0; })) {
      used.push_back(u);
    }
  }
  return used;
}

std::vector<std::string> labels_of(std::string heading, const std::vector<std::size_t>& used) {
  std::vector<std::string> labels{std::move(heading)};
  for (const std::size_t u : used) labels.emplace_back(time_use_name(static_cast<TimeUse>(u)));
  return labels;
}

std::string layer_table(const Explanation& explanation, std::size_t width) {
  constexpr std::size_t most = 24;
  const std::size_t shown = std::min(most, explanation.layers.size());
  std::vector<TimeUses> all;
  std::int64_t longest = 0;
  for (std::size_t k = 0; k < shown; ++k) {
    const LayerKind& kind = explanation.layers[k];
    for (const TimeUses& uses : {kind.forward, kind.backward}) {
      all.push_back(uses);
      longest = std::max(longest, sum_of(uses));
    }
  }
  const TableUnit unit = table_unit(longest);
  const std::vector<std::size_t> used = uses_in(all);
  std::vector<Group> groups;
  for (std::size_t k = 0; k < shown; ++k) {
    const LayerKind& kind = explanation.layers[k];
    Group& group = groups.emplace_back();
    group.title = kind.count == 1 ? printable(kind.name)
                                  : fmt::format("{} x {}", kind.count, printable(kind.name));
    group.columns = {{"F", {}}, {"B", {}}, {"%", {}}};
    const std::int64_t forward = sum_of(kind.forward);
    const std::int64_t backward = sum_of(kind.backward);
    const auto add = [&](std::int64_t f, std::int64_t b) {
      group.columns[0].cells.push_back(unit.text(f));
      group.columns[1].cells.push_back(unit.text(b));
      group.columns[2].cells.push_back(share(f + b, forward + backward));
    };
    for (const std::size_t u : used) add(kind.forward[u], kind.backward[u]);
    add(forward, backward);
  }
  std::vector<std::string> labels = labels_of("", used);
  labels.emplace_back("sum");
  std::string out = fmt::format("one microbatch through a layer, {}\n", unit.name);
  out += table(labels, groups, width);
  if (shown < explanation.layers.size()) {
    out +=
        fmt::format("{} of {} layers; --json lists them all\n", shown, explanation.layers.size());
  }
  return out;
}

// Neighbouring ranks whose times are the same.
struct Ranks {
  std::size_t first;
  std::size_t last;
};

std::string name_of(const Ranks& ranks) {
  if (ranks.first == ranks.last) return fmt::format("rank {}", ranks.first);
  return fmt::format("ranks {}-{}", ranks.first, ranks.last);
}

std::string rank_time_table(const Explanation& explanation, std::int64_t makespan_ns,
                            std::size_t width) {
  std::vector<Ranks> runs;
  std::vector<TimeUses> all;
  for (std::size_t r = 0; r < explanation.ranks.size(); ++r) {
    if (!all.empty() && all.back() == explanation.ranks[r].time) {
      runs.back().last = r;
      continue;
    }
    runs.push_back({r, r});
    all.push_back(explanation.ranks[r].time);
  }
  const TableUnit unit = table_unit(makespan_ns);
  const std::vector<std::size_t> used = uses_in(all);
  const std::vector<int> shown = shown_ranks(static_cast<int>(runs.size()));
  std::vector<Group> groups;
  for (const int i : shown) {
    const TimeUses& uses = all[static_cast<std::size_t>(i)];
    Group& group = groups.emplace_back();
    group.title = name_of(runs[static_cast<std::size_t>(i)]);
    group.columns = {{std::string(unit.name), {}}, {"%", {}}};
    const auto add = [&](std::int64_t ns) {
      group.columns[0].cells.push_back(unit.text(ns));
      group.columns[1].cells.push_back(share(ns, makespan_ns));
    };
    for (const std::size_t u : used) add(uses[u]);
    const std::int64_t busy = sum_of(uses);
    add(busy);
    add(makespan_ns - busy);
    add(makespan_ns);
  }
  std::vector<std::string> labels = labels_of("", used);
  labels.insert(labels.end(), {"busy", "bubble", "iteration"});
  std::string out = "an iteration of each rank\n" + table(labels, groups, width);
  if (shown.size() < runs.size()) {
    out += fmt::format("{} of {} that differ; --json lists all ranks\n", shown.size(), runs.size());
  }
  return out;
}

// ---- Memory

struct ByteUnit {
  std::string_view name;
  double bytes;

  std::string text(std::int64_t count) const {
    if (count == 0) return "-";
    return fmt::format("{:.2f}", static_cast<double>(count) / bytes);
  }
};

ByteUnit byte_unit(std::int64_t most) {
  constexpr std::int64_t mib = 1 << 20;
  if (most < 10 * mib) return {"KiB", 1024.0};
  if (most < 10'000 * mib) return {"MiB", static_cast<double>(mib)};
  return {"GiB", 1024.0 * static_cast<double>(mib)};
}

std::string memory_table(const Explanation& explanation, std::int64_t memory_bytes,
                         std::size_t width) {
  struct Line {
    std::string name;
    std::int64_t (*bytes)(const RankUse&);
  };
  const std::vector<Line> lines{
      {"weights", [](const RankUse& rank) { return rank.memory.states.weights; }},
      {"gradients", [](const RankUse& rank) { return rank.memory.states.gradients; }},
      {"optimizer", [](const RankUse& rank) { return rank.memory.states.optimizer; }},
      {"activations", [](const RankUse& rank) { return rank.memory.peak.bytes.activations; }},
      {"weight residue", [](const RankUse& rank) { return rank.memory.peak.bytes.residue; }},
      {"send buffers", [](const RankUse& rank) { return rank.memory.peak.bytes.send_buffers; }},
      {"receive buffers",
       [](const RankUse& rank) { return rank.memory.peak.bytes.receive_buffers; }},
      {"peak", [](const RankUse& rank) { return rank.memory.total(); }}};
  const auto any = [&](auto bytes) {
    return std::ranges::any_of(explanation.ranks, [&](const RankUse& r) { return bytes(r) != 0; });
  };
  const auto over = [&](const RankUse& rank) {
    return std::max<std::int64_t>(0, rank.memory.total() - memory_bytes);
  };
  const auto beside = [](const RankUse& rank) { return rank.workspace_bytes; };
  const bool has_over = any(over);
  const bool has_beside = any(beside);
  std::int64_t most = 0;
  for (const RankUse& rank : explanation.ranks) most = std::max(most, rank.memory.total());
  const ByteUnit unit = byte_unit(most);

  const std::vector<int> shown = shown_ranks(static_cast<int>(explanation.ranks.size()));
  std::vector<Group> groups;
  std::vector<std::string> labels{"rank"};
  for (const Line& line : lines) {
    if (any(line.bytes)) labels.push_back(line.name);
  }
  labels.push_back(fmt::format("% of {}", format_bytes(memory_bytes)));
  if (has_over) labels.emplace_back("too much");
  if (has_beside) labels.emplace_back("beside, in backward");
  for (const int r : shown) {
    const RankUse& rank = explanation.ranks[static_cast<std::size_t>(r)];
    Column column{std::to_string(r), {}};
    for (const Line& line : lines) {
      if (any(line.bytes)) column.cells.push_back(unit.text(line.bytes(rank)));
    }
    column.cells.push_back(share(rank.memory.total(), memory_bytes));
    if (has_over) column.cells.push_back(unit.text(over(rank)));
    if (has_beside) column.cells.push_back(unit.text(beside(rank)));
    groups.push_back({"", {std::move(column)}});
  }
  std::string out = fmt::format("memory of each rank at its fullest, {}\n", unit.name);
  out += table(labels, groups, width);
  if (shown.size() < explanation.ranks.size()) {
    out += fmt::format("{} of {} ranks; --json lists them all\n", shown.size(),
                       explanation.ranks.size());
  }
  return out;
}

// ---- Sentences

// 3.12e14 -> "312.0 T".
std::string with_prefix(double value) {
  constexpr std::string_view prefixes[] = {"", " k", " M", " G", " T", " P", " E", " Z", " Y"};
  std::size_t at = 0;
  for (; value >= 1000 && at + 1 < std::size(prefixes); ++at) value /= 1000;
  return fmt::format("{:.1f}{}", value, at == 0 ? " " : prefixes[at]);
}

std::string use_of_devices(const CostModel& model, const Throughput& throughput,
                           std::int64_t makespan_ns) {
  const std::string_view unit = model.model().is_listed() ? "samples" : "tokens";
  std::string out =
      fmt::format("{} {} in {}", format_count(throughput.tokens), unit, format_time(makespan_ns));
  if (!throughput.mfu)
    return out + fmt::format("; {} does not say its FLOPs.\n", model.model().name);
  out += fmt::format("; the model needs {}FLOP, {} of the {}FLOP/s of {} (MFU)",
                     with_prefix(throughput.model_flops), format_percent(*throughput.mfu),
                     with_prefix(throughput.peak_flops_per_second),
                     plural(model.training().devices(), "device"));
  if (throughput.recomputed_flops > 0) {
    out += fmt::format("; with {}FLOP computed again it is {} (HFU)",
                       with_prefix(throughput.recomputed_flops), format_percent(*throughput.hfu));
  }
  return out + ".\n";
}

std::string unverified(const CostModel& model, const Explanation& explanation) {
  const auto part = [](const std::string& name, const std::vector<std::string>& keys) {
    return keys.empty() ? std::string()
                        : fmt::format("of {} {}", printable(name), fmt::join(keys, ", "));
  };
  const Cluster& cluster = model.cluster();
  const std::string of_device = part(cluster.device.name, explanation.unverified_of_device);
  const std::string of_cluster = part(cluster.name, explanation.unverified_of_cluster);
  if (of_device.empty() && of_cluster.empty()) return {};
  return fmt::format("Assumed, not verified: {}{}{}.\n", of_device,
                     of_device.empty() || of_cluster.empty() ? "" : "; ", of_cluster);
}

}  // namespace

std::string explanation_report(const CostModel& model, const Explanation& explanation,
                               std::int64_t makespan_ns, std::int64_t memory_bytes, int width) {
  const auto columns = static_cast<std::size_t>(width);
  return layer_table(explanation, columns) + "\n" +
         rank_time_table(explanation, makespan_ns, columns) + "\n" +
         memory_table(explanation, memory_bytes, columns) + "\n" +
         wrap(use_of_devices(model, explanation.throughput, makespan_ns) +
                  unverified(model, explanation),
              width);
}

}  // namespace pipesim::cli
