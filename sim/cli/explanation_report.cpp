#include "sim/cli/explanation_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "traces/base/text.h"
#include "traces/print/columns.h"
#include "traces/print/picture.h"
#include "traces/print/tables.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

std::string share(std::int64_t part, std::int64_t whole) {
  if (part == 0 || whole == 0) return "-";
  return fmt::format("{:.1f}", static_cast<double>(part) / static_cast<double>(whole) * 100);
}

// 3.12e14 -> "312.0 T".
std::string with_prefix(double value) {
  constexpr std::string_view prefixes[] = {"", " k", " M", " G", " T", " P", " E", " Z", " Y"};
  std::size_t at = 0;
  for (; value >= 1000 && at + 1 < std::size(prefixes); ++at) value /= 1000;
  return fmt::format("{:.1f}{}", value, at == 0 ? " " : prefixes[at]);
}

// ---- Time

// The uses, then further labels.
std::vector<std::string> labels_of(const std::vector<std::string>& more) {
  std::vector<std::string> labels{""};
  for (std::size_t u = 0; u < time_use_count; ++u) {
    labels.emplace_back(time_use_name(static_cast<TimeUse>(u)));
  }
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

std::string layer_table(const Explanation& explanation, std::size_t width) {
  constexpr std::size_t most = 24;
  const std::size_t shown = std::min(most, explanation.layers.size());
  std::int64_t longest = 0;
  for (std::size_t k = 0; k < shown; ++k) {
    const LayerKind& kind = explanation.layers[k];
    longest = std::max({longest, sum_of(kind.forward), sum_of(kind.backward)});
  }
  constexpr std::int64_t min_in_ms = 100'000;
  const TableUnit unit = longest < min_in_ms ? table_unit(longest) : TableUnit{"ms", 1e6, 3};
  std::vector<ColumnGroup> groups;
  for (std::size_t k = 0; k < shown; ++k) {
    const LayerKind& kind = explanation.layers[k];
    ColumnGroup& group = groups.emplace_back();
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
    for (std::size_t u = 0; u < time_use_count; ++u) add(kind.forward[u], kind.backward[u]);
    add(forward, backward);
  }
  std::string out = fmt::format("one microbatch through one layer, {}\n", unit.name);
  out += table(labels_of({"sum"}), groups, width);
  if (shown < explanation.layers.size()) {
    out +=
        fmt::format("{} of {} layers; --json lists them all\n", shown, explanation.layers.size());
  }
  return out;
}

// Of software that lists them: what each takes of the layer's kernels, and the rate it reaches.
std::string kernel_table(const LayerKind& kind, std::size_t width) {
  constexpr std::array<std::string_view, pass_count> passes{"F", "I", "W"};
  std::int64_t sum_ns = 0;
  for (const KernelUse& one : kind.kernels) sum_ns += one.time_ns;
  std::vector<std::string> labels{printable(kind.name) + ", us"};
  Column pass{"pass", {}}, launches{"runs", {}}, time{"time", {}}, part{"%", {}}, work{"work", {}},
      rate{"rate", {}};
  for (const KernelUse& one : kind.kernels) {
    labels.push_back(printable(one.name));
    pass.cells.emplace_back(passes[static_cast<std::size_t>(one.pass)]);
    launches.cells.push_back(std::to_string(one.launches));
    time.cells.push_back(fmt::format("{:.1f}", static_cast<double>(one.time_ns) / 1e3));
    part.cells.push_back(share(one.time_ns, sum_ns));
    const double amount = one.flops > 0 ? one.flops : one.bytes;
    const std::string_view unit = one.flops > 0 ? "FLOP" : "B";
    work.cells.push_back(with_prefix(amount) + std::string(unit));
    rate.cells.push_back(
        fmt::format("{}{}/s", with_prefix(amount * 1e9 / static_cast<double>(one.time_ns)), unit));
  }
  return table(labels, {{"", {pass, launches}}, {"", {time, part}}, {"", {work}}, {"", {rate}}},
               width);
}

std::string kernel_tables(const Explanation& explanation, std::size_t width) {
  std::string out;
  for (const LayerKind& kind : explanation.layers) {
    if (!kind.kernels.empty()) out += kernel_table(kind, width) + "\n";
  }
  if (out.empty()) return out;
  return wrap(fmt::format("kernels of one microbatch, at the rates by kernel of {}",
                          explanation.kernel_rates_of),
              static_cast<int>(width)) +
         "\n" + out;
}

// Neighbouring ranks with the same times.
struct Ranks {
  std::size_t first;
  std::size_t last;
};

std::string title_of(const Ranks& ranks) {
  if (ranks.first == ranks.last) return fmt::format("rank {}", ranks.first);
  return fmt::format("ranks {}-{}", ranks.first, ranks.last);
}

std::string rank_time_table(const Explanation& explanation, const Throughput& reached,
                            std::size_t width) {
  const std::int64_t makespan_ns = explanation.makespan_ns;
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
  const std::vector<int> shown = shown_ranks(static_cast<int>(runs.size()));
  std::vector<ColumnGroup> groups;
  for (const int i : shown) {
    const TimeUses& uses = all[static_cast<std::size_t>(i)];
    ColumnGroup& group = groups.emplace_back();
    group.title = title_of(runs[static_cast<std::size_t>(i)]);
    group.columns = {{std::string(unit.name), {}}, {"%", {}}};
    const auto add = [&](std::int64_t ns) {
      group.columns[0].cells.push_back(unit.text(ns));
      group.columns[1].cells.push_back(share(ns, makespan_ns));
    };
    for (const std::int64_t ns : uses) add(ns);
    const std::int64_t busy = sum_of(uses);
    add(busy);
    add(makespan_ns - busy);
    add(makespan_ns);
  }
  const bool is_each = explanation.makespan_ns == reached.iteration_ns;
  std::string out = std::string(is_each ? "one iteration on each rank\n"
                                        : "the first iteration on each rank, SAVEs aside\n") +
                    table(labels_of({"busy", "bubble", "iteration"}), groups, width);
  if (shown.size() < runs.size()) {
    out += fmt::format("{} of {} that differ; --json lists all ranks\n", shown.size(), runs.size());
  }
  return out;
}

// Empty if replicas exchange nothing while ranks compute.
std::string next_to_compute_table(const Explanation& explanation, std::size_t width) {
  const auto any = [](const RankUse& rank) { return rank.beside.any(); };
  if (std::ranges::none_of(explanation.ranks, any)) return {};
  std::int64_t longest = 0;
  for (const RankUse& rank : explanation.ranks) {
    longest = std::max({longest, rank.beside.reduction.ns, rank.beside.gather.ns});
  }
  const TableUnit unit = table_unit(longest);
  const std::vector<int> shown = shown_ranks(static_cast<int>(explanation.ranks.size()));
  std::vector<ColumnGroup> groups;
  for (const int r : shown) {
    const NextToCompute& beside = explanation.ranks[static_cast<std::size_t>(r)].beside;
    Column column{std::to_string(r), {}};
    for (const std::int64_t ns : {beside.reduction.ns, beside.reduction.in_bubbles_ns,
                                  beside.gather.ns, beside.gather.in_bubbles_ns}) {
      column.cells.push_back(unit.text(ns));
    }
    groups.push_back({"", {std::move(column)}});
  }
  return fmt::format("exchanged with replicas during compute, {}\n", unit.name) +
         table({"rank", "gradients reduced", "  in bubbles", "weights gathered", "  in bubbles"},
               groups, width) +
         "\n";
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

// `activation_memory`: the software's factor included in activations.
std::string memory_table(const Explanation& explanation, std::int64_t memory_bytes,
                         double activation_memory, std::size_t width) {
  std::int64_t most = 0;
  for (const RankUse& rank : explanation.ranks) most = std::max(most, rank.memory.total());
  const ByteUnit unit = byte_unit(most);
  const std::vector<std::string> labels{
      "rank",
      "weights",
      "gradients",
      "optimizer",
      activation_memory == 1 ? "activations"
                             : fmt::format("activations x {:.4g}", activation_memory),
      "weight residue",
      "send buffers",
      "receive buffers",
      "gathered weights",
      "workspace",
      "reserved",
      "peak",
      fmt::format("% of {}", format_bytes(memory_bytes)),
      "too much"};
  const std::vector<int> shown = shown_ranks(static_cast<int>(explanation.ranks.size()));
  std::vector<ColumnGroup> groups;
  for (const int r : shown) {
    const RankUse& rank = explanation.ranks[static_cast<std::size_t>(r)];
    const StateBytes& states = rank.memory.states;
    const WorkingBytes& working = rank.memory.peak.bytes;
    const std::int64_t total = rank.memory.total();
    Column column{std::to_string(r), {}};
    for (const std::int64_t bytes :
         {states.weights, states.gradients, states.optimizer, working.activations, working.residue,
          working.send_buffers, working.receive_buffers, working.unsharded, working.workspace,
          rank.memory.reserved, total}) {
      column.cells.push_back(unit.text(bytes));
    }
    column.cells.push_back(share(total, memory_bytes));
    column.cells.push_back(unit.text(std::max<std::int64_t>(0, total - memory_bytes)));
    groups.push_back({"", {std::move(column)}});
  }
  std::string out = fmt::format("peak memory per rank, {}\n", unit.name);
  out += table(labels, groups, width);
  if (shown.size() < explanation.ranks.size()) {
    out += fmt::format("{} of {} ranks; --json lists them all\n", shown.size(),
                       explanation.ranks.size());
  }
  return out;
}

// ---- Sentences

std::string use_of_devices(const CostModel& model, const Throughput& throughput) {
  const std::string_view unit = model.model().is_listed() ? "samples" : "tokens";
  std::string out = fmt::format("{} {} in {}", format_count(throughput.tokens), unit,
                                format_time(throughput.iteration_ns));
  if (throughput.model_flops == 0) {
    return out + fmt::format("; {} does not say its FLOPs.\n", printable(model.model().name));
  }
  out += fmt::format("; the model needs {}FLOP", with_prefix(throughput.model_flops));
  if (!throughput.mfu) return out + ".\n";
  out += fmt::format(", {} of the {}FLOP/s of {} (MFU)", format_percent(*throughput.mfu),
                     with_prefix(throughput.peak_flops_per_second),
                     plural(model.training().devices(), "device"));
  if (throughput.recomputed_flops > 0) {
    out += fmt::format("; counting {}FLOP of recomputation, {} (HFU)",
                       with_prefix(throughput.recomputed_flops), format_percent(*throughput.hfu));
  }
  return out + ".\n";
}

std::string unverified(const CostModel& model, const Explanation& explanation) {
  const auto part = [](const std::string& name, const std::vector<std::string>& keys) {
    return keys.empty() ? std::string()
                        : fmt::format("{} {}", printable(name), fmt::join(keys, ", "));
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
                               const Throughput& reached, std::int64_t memory_bytes, int width) {
  const auto columns = static_cast<std::size_t>(width);
  return layer_table(explanation, columns) + "\n" + kernel_tables(explanation, columns) +
         rank_time_table(explanation, reached, columns) + "\n" +
         next_to_compute_table(explanation, columns) +
         memory_table(explanation, memory_bytes, model.cluster().device.software.activation_memory,
                      columns) +
         "\n" + wrap(use_of_devices(model, reached) + unverified(model, explanation), width);
}

}  // namespace pipesim::cli
