#include "sim/cost/estimate/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "sim/schedule/schedule.h"
#include "traces/collective_times.h"

namespace pipesim {
namespace {

constexpr std::size_t at(TimeUse use) { return static_cast<std::size_t>(use); }
static_assert(at(TimeUse::host) == static_cast<std::size_t>(OperatorClass::host));
static_assert(at(TimeUse::recompute) == operator_class_count);

using Seconds = std::array<double, time_use_count>;

// Whole nanoseconds that sum to `total_ns`: the rounding remainder goes to the largest.
TimeUses deal_out(const Seconds& seconds, std::int64_t total_ns) {
  TimeUses uses{};
  for (std::size_t u = 0; u < uses.size(); ++u) uses[u] = std::llround(seconds[u] * 1e9);
  *std::ranges::max_element(uses) += total_ns - sum_of(uses);
  return uses;
}

std::vector<KernelUse> kernels_of(const LayerEstimate& layer) {
  std::vector<KernelUse> kernels;
  for (std::size_t i = 0; i < layer.operators.size(); ++i) {
    const Operator& one = layer.operators[i];
    if (layer.seconds[i] == 0 || one.collective) continue;
    auto known = std::ranges::find_if(kernels, [&](const KernelUse& other) {
      return other.name == one.name && other.pass == one.pass &&
             (other.flops > 0) == (one.flops > 0);
    });
    if (known == kernels.end()) known = kernels.insert(known, {one.name, one.pass, 0, 0, 0, 0});
    known->launches += one.kernels;
    known->flops += one.flops;
    known->bytes += one.product || one.flops > 0 ? 0 : one.bytes;
    known->time_ns += std::llround(layer.seconds[i] * 1e9);
  }
  std::ranges::stable_sort(kernels, {}, &KernelUse::pass);
  return kernels;
}

LayerKind explain_layer(const LayerEstimate& layer, bool splits_backward,
                        bool lists_kernels = false) {
  LayerKind kind;
  Seconds forward{};
  Seconds backward{};
  for (std::size_t c = 0; c < operator_class_count; ++c) {
    forward[c] = layer.forward[c];
    backward[c] = layer.backward[c] - layer.recompute[c];
    backward[at(TimeUse::recompute)] += layer.recompute[c];
  }
  forward[at(TimeUse::hidden)] = -layer.hidden_forward_seconds;
  backward[at(TimeUse::hidden)] =
      -layer.hidden_backward_seconds - (splits_backward ? 0 : layer.hidden_seconds);
  const std::int64_t input_ns =
      splits_backward ? layer.lone_backward_input_ns : layer.costs.backward_input_ns;
  if (lists_kernels) kind.kernels = kernels_of(layer);
  kind.forward = deal_out(forward, layer.costs.forward_ns);
  kind.backward = deal_out(backward, input_ns + layer.costs.backward_weight_ns);
  return kind;
}

// All uses alike longer or shorter, so that they sum to `total_ns`.
TimeUses scaled(const TimeUses& uses, std::int64_t total_ns) {
  const std::int64_t sum_ns = sum_of(uses);
  if (sum_ns == total_ns || sum_ns == 0) return uses;
  Seconds seconds{};
  const double factor = 1e-9 * static_cast<double>(total_ns) / static_cast<double>(sum_ns);
  for (std::size_t u = 0; u < uses.size(); ++u) seconds[u] = factor * static_cast<double>(uses[u]);
  return deal_out(seconds, total_ns);
}

void add(TimeUses& sum, const TimeUses& uses, std::int64_t times) {
  for (std::size_t u = 0; u < sum.size(); ++u) sum[u] += times * uses[u];
}

std::vector<RankUse> explain_ranks(const CostModel& model, const PipelineShape& shape,
                                   int microbatches, const Costs& costs, const Metrics& metrics,
                                   const std::vector<RankMemory>& memory) {
  std::vector<RankUse> ranks(metrics.ranks.size());
  const std::vector<std::vector<LayerRun>> runs = model.runs(shape);
  for (int stage = 0; stage < shape.placement.stages(); ++stage) {
    TimeUses uses{};  // for one microbatch
    for (const LayerRun& run : runs[static_cast<std::size_t>(stage)]) {
      const LayerKind kind = explain_layer(*run.each, shape.splits_backward);
      add(uses, kind.forward, run.count);
      add(uses, kind.backward, run.count);
    }
    const int copies = shape.placement.copies();
    for (int copy = 0; copy < copies; ++copy) {
      RankUse& rank = ranks[static_cast<std::size_t>(shape.placement.rank_of(stage, copy))];
      const StageCosts& own = costs.of(stage, copy, shape.placement);
      add(rank.time, scaled(uses, own.forward_ns + own.backward_ns()), microbatches / copies);
      rank.time[at(TimeUse::messages)] += own.messages_ns() * (microbatches / copies);
    }
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    TimeUses& time = ranks[r].time;
    const RankMetrics& rank = metrics.ranks[r];
    time[at(TimeUse::reduction)] =
        rank.closing.of(Kind::REDUCE_GRAD) + rank.closing.of(Kind::REDUCE_TIED);
    time[at(TimeUse::optimizer)] =
        rank.closing.of(Kind::GRAD_NORM) + rank.closing.of(Kind::OPTIMIZER);
    time[at(TimeUse::slowdown)] = rank.busy_ns - sum_of(time);
    ranks[r].memory = memory[r];
  }
  return ranks;
}

// "block", and what sets its kind apart if there are several.
std::string block_name(const Model& model, int layer) {
  const auto differ = [&](const auto& part) {
    return std::ranges::any_of(model.kinds, [&](const BlockKind& kind) {
      return part(kind) != part(model.kinds.front());
    });
  };
  const BlockKind& kind = model.kind_of(layer);
  std::string name = "block";
  if (differ([](const BlockKind& one) { return one.has_experts; })) {
    name += kind.has_experts ? ", experts" : ", dense";
  }
  if (differ([](const BlockKind& one) { return std::pair(one.window, one.chunk); })) {
    name += kind.window ? ", window" : kind.chunk ? ", chunks" : ", all tokens";
  }
  return name;
}

// Layers identical to an earlier one are counted there.
std::vector<LayerKind> explain_layers(const CostModel& model, const PipelineShape& shape) {
  std::vector<LayerRun> runs;
  for (const std::vector<LayerRun>& own : model.runs(shape)) {
    runs.insert(runs.end(), own.begin(), own.end());
  }
  std::vector<LayerKind> kinds;
  for (const LayerRun& run : runs) {
    LayerKind kind = explain_layer(*run.each, shape.splits_backward,
                                   model.cluster().device.software.kernels.has_value());
    kind.count = run.count;
    const auto alike = std::ranges::find_if(kinds, [&](const LayerKind& other) {
      return other.forward == kind.forward && other.backward == kind.backward;
    });
    if (alike != kinds.end()) {
      alike->count += kind.count;
      continue;
    }
    const Model& own = model.model();
    const bool is_kept = own.is_block(run.first) && run.each != &model.layer(run.first);
    kind.name = own.is_block(run.first) ? block_name(own, run.first) : own.layer_name(run.first);
    if (is_kept) kind.name += ", kept";
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

// Layers given by their times do not.
bool says_flops(const Model& model) {
  return std::ranges::none_of(model.list, [](const ListedLayer& layer) {
    return layer.forward_ns.has_value() || layer.backward_ns.has_value();
  });
}

// The device's keys that matter for this training.
std::vector<std::string> used_of_device(const DeviceSpec& device, Precision precision) {
  std::vector<std::string> used;
  for (const std::string& key : device.unverified) {
    if (std::string_view(key).starts_with("host_")) continue;  // nothing is copied from the host
    const bool is_peak = std::string_view(key).starts_with("peak.");
    if (!is_peak || key == fmt::format("peak.{}", precision_name(precision))) used.push_back(key);
  }
  return used;
}

std::string rates_name(const DeviceSpec& device) {
  constexpr std::string_view scaled = "scaled by the peaks and memory bandwidths";
  if (!device.kernels) return fmt::format("h100-sxm-80gb, {}", scaled);
  if (device.kernels->base.empty()) return device.name;
  return fmt::format("{}, and where it has none of {}, {}", device.name, device.kernels->base,
                     scaled);
}

std::vector<std::string> used_of_cluster(const Cluster& cluster, std::int64_t devices) {
  std::vector<std::string> used;
  for (const std::string& key : cluster.unverified) {
    const bool is_network = std::string_view(key).starts_with("network.");
    if (!is_network || devices > cluster.devices_per_node) used.push_back(key);
  }
  return used;
}

}  // namespace

std::string_view time_use_name(TimeUse use) {
  switch (use) {
    case TimeUse::tensor_parallel: return "tensor parallel";
    case TimeUse::recompute: return "recomputation";
    case TimeUse::hidden: return "TP overlap";
    case TimeUse::messages: return "messages";
    case TimeUse::slowdown: return "contention";
    case TimeUse::reduction: return "reduction";
    case TimeUse::optimizer: return "optimizer";
    default: return operator_class_name(static_cast<OperatorClass>(use));
  }
}

std::string time_use_key(TimeUse use) {
  if (use == static_cast<TimeUse>(OperatorClass::matmul)) return "matrix_products";
  if (use == TimeUse::recompute) return "computed_again";
  if (use == TimeUse::hidden) return "hidden_reduction";
  if (use == TimeUse::slowdown) return "beside_transfers";
  std::string key(time_use_name(use));
  std::ranges::replace_if(
      key, [](char c) { return c == ' ' || c == '-'; }, '_');
  return key;
}

std::int64_t sum_of(const TimeUses& uses) {
  return std::accumulate(uses.begin(), uses.end(), std::int64_t{0});
}

Throughput throughput(const CostModel& model, int microbatches, std::int64_t iteration_ns,
                      double recomputed_flops) {
  Throughput result;
  result.iteration_ns = iteration_ns;
  result.tokens = model.tokens(microbatches);
  if (says_flops(model.model())) result.model_flops = model.model_flops(microbatches);
  result.recomputed_flops = microbatches * recomputed_flops;
  const Training& training = model.training();
  result.peak_flops_per_second =
      *model.cluster().device.flops_per_second[static_cast<std::size_t>(training.precision)] *
      static_cast<double>(training.devices());
  if (iteration_ns == 0) return result;  // nothing takes any time
  const double seconds = static_cast<double>(iteration_ns) * 1e-9;
  result.tokens_per_second = static_cast<double>(result.tokens) / seconds;
  if (result.model_flops > 0) {
    result.mfu = model.mfu(microbatches, iteration_ns);
    result.hfu = *result.mfu * (1 + result.recomputed_flops / result.model_flops);
  }
  return result;
}

std::vector<StageExchanges> tensor_exchanges(const CostModel& model, const PipelineShape& shape) {
  if (model.training().tensor_parallel == 1) return {};
  constexpr std::size_t exchange = at(TimeUse::tensor_parallel);
  std::vector<StageExchanges> stages;
  for (const std::vector<LayerRun>& runs : model.runs(shape)) {
    StageExchanges& stage = stages.emplace_back();
    for (const LayerRun& run : runs) {
      const LayerEstimate& one = *run.each;
      stage.forward.ns += run.count * std::llround(one.forward[exchange] * 1e9);
      stage.forward.hidden_ns += run.count * std::llround(one.hidden_forward_seconds * 1e9);
      stage.backward.ns += run.count * std::llround(one.backward[exchange] * 1e9);
      const double hidden =
          one.hidden_backward_seconds + (shape.splits_backward ? 0 : one.hidden_seconds);
      stage.backward.hidden_ns += run.count * std::llround(hidden * 1e9);
    }
  }
  return stages;
}

Explanation explain(const CostModel& model, const PipelineShape& shape, int microbatches,
                    const Costs& costs, const Metrics& metrics,
                    const std::vector<RankMemory>& memory, std::span<const Span> spans) {
  Explanation result;
  result.makespan_ns = metrics.makespan_ns;
  result.layers = explain_layers(model, shape);
  result.recomputed_flops = model.recomputed_flops(shape);
  result.ranks = explain_ranks(model, shape, microbatches, costs, metrics, memory);
  for (const auto& [what, times] : collective_times_by_stage(spans)) {
    NextToCompute& beside = result.ranks[static_cast<std::size_t>(what.rank)].beside;
    NextToCompute::Exchanged& own = what.kind == Kind::UNSHARD ? beside.gather : beside.reduction;
    own.ns += times.total_ns;
    own.in_bubbles_ns += times.exposed_ns();
  }
  const DeviceSpec& device = model.cluster().device;
  if (device.software.kernels) result.kernel_rates_of = rates_name(device);
  const Training& training = model.training();
  result.unverified_of_device = used_of_device(model.cluster().device, training.precision);
  result.unverified_of_cluster = used_of_cluster(model.cluster(), training.devices());
  return result;
}

}  // namespace pipesim
