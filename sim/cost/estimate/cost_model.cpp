#include "sim/cost/estimate/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/cost/estimate/collective_times.h"
#include "sim/cost/estimate/device_times.h"
#include "sim/cost/estimate/pipeline_links.h"
#include "sim/cost/estimate/replicas.h"
#include "sim/cost/estimate/rounding.h"
#include "sim/cost/layout.h"
#include "sim/cost/stage_sum.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/mesh.h"

namespace pipesim {
namespace {

// The states that a rank keeps for so many parameters.
void fill_states(StageCosts& costs, const Training& training, const SoftwareSpec& software,
                 std::int64_t parameters) {
  const auto part = [&](std::int64_t bytes, bool is_sharded) {
    const std::int64_t shards = is_sharded ? training.shards() : 1;
    return (parameters * bytes + shards - 1) / shards;
  };
  const bool is_wide = software.kernels && software.kernels->keeps_wide_weights;
  const bool sums_wide = is_wide || (software.kernels && software.kernels->keeps_wide_gradients);
  const std::int64_t value = is_wide ? 4 : bytes_of(training.precision);
  costs.weight_bytes = part(value, training.zero >= 3);
  costs.gradient_bytes =
      part(std::max<std::int64_t>(training.gradient_bytes, sums_wide ? 4 : 0), training.zero >= 2) +
      to_bytes(static_cast<double>(parameters) * software.state_bytes);
  if (software.keeps_both_gradients && training.gradient_bytes > value) {
    costs.gradient_bytes += part(value, training.zero >= 2);
  }
  costs.optimizer_bytes =
      part(training.optimizer_bytes.value_or(usual_optimizer_bytes(training, software)),
           training.zero >= 1);
}

// ---- One layer

class Estimator {
 public:
  Estimator(const Model& model, const Cluster& cluster, const Training& training)
      : model_(model),
        cluster_(cluster),
        device_(cluster.device),
        software_(cluster.device.software),
        training_(training),
        tensor_group_{training.mesh(1).group_of(0, Axis::tensor)} {
    if (software_.kernels) {
      by_kernel_.emplace(device_, *software_.kernels, pace_of(cluster, training.devices()));
    }
  }

  LayerEstimate run(int layer) {
    LayerEstimate result;
    result.operators = layer_operators(model_, layer, training_, software_);
    const bool is_head = !model_.is_listed() && model_.is_head(layer);
    const bool is_block =
        !model_.is_listed() && !model_.is_embedding(layer) && !model_.is_head(layer);
    double weight = 0;
    double hidden = 0;
    double hiding = 0;
    double exchanged[2] = {};  // forward, backward
    double products[2] = {};
    ClassSeconds again{};
    ClassSeconds last{};  // of what ends a block, if that is not computed again
    const bool stops_early = software_.kernels && software_.kernels->stops_early;
    for (const Operator& one : result.operators) {
      const double seconds = seconds_of(one, is_head);
      result.seconds.push_back(seconds);
      const auto of = static_cast<std::size_t>(one.of);
      (one.pass == Pass::forward ? result.forward : result.backward)[of] += seconds;
      if (training_.recompute.includes(one.part)) again[of] += seconds * one.part_share;
      if (one.pass == Pass::backward_weight) weight += seconds;
      if (one.is_hidden) hidden += seconds;
      if (stops_early && one.ends_block && one.pass == Pass::forward) last[of] += seconds;
      const std::size_t way = one.pass == Pass::forward ? 0 : 1;
      if (by_kernel_) result.launch_seconds[way] += launch_seconds(one);
      if (one.of == OperatorClass::tensor_parallel) exchanged[way] += seconds;
      if (one.of == OperatorClass::matmul) products[way] += seconds;
      if (one.hides_reduction) hiding += seconds;
    }
    if (training_.asynchronous_reduction) {
      const double part = hidden_exchange(training_, software_);
      result.hidden_forward_seconds = part * std::min(exchanged[0], products[0]);
      result.hidden_seconds = software_.hidden_reduction * std::min(hidden, hiding);
      result.hidden_backward_seconds = part * std::min(exchanged[1] - result.hidden_seconds,
                                                       products[1] - result.hidden_seconds);
    }
    const bool has_host = is_block && model_.architecture != Architecture::mlp;
    if (has_host) {
      const HostFloor& host = software_.host;
      const double peers = static_cast<double>(peers_ns());
      raise(result.forward, result.hidden_forward_seconds,
            (static_cast<double>(host.forward_ns) + peers) * 1e-9);
      raise(result.backward, result.hidden_seconds + result.hidden_backward_seconds,
            (static_cast<double>(host.backward_ns) + peers) * 1e-9);
    }
    if (by_kernel_ && is_block) {
      const KernelList& list = *software_.kernels;
      result.launch_seconds[0] += static_cast<double>(list.host_forward.block_ns) * 1e-9;
      result.launch_seconds[1] += static_cast<double>(list.host_backward.block_ns) * 1e-9;
      if (training_.recompute.full) result.launch_seconds[1] += result.launch_seconds[0];
    }
    if (is_block) result.recompute = training_.recompute.full ? result.forward : again;
    if (is_block && training_.recompute.full) {
      for (std::size_t c = 0; c < last.size(); ++c) result.recompute[c] -= last[c];
    }
    for (std::size_t c = 0; c < result.backward.size(); ++c) {
      result.backward[c] += result.recompute[c];
    }
    // A recomputed forward hides its exchanges again.
    if (is_block && training_.recompute.full) {
      result.hidden_backward_seconds += result.hidden_forward_seconds;
    }

    result.device_seconds = sum(result.forward) + sum(result.backward);
    if (is_block) {
      constexpr auto host = static_cast<std::size_t>(OperatorClass::host);
      result.forward[host] += waits_[0];
      result.backward[host] += waits_[1];
    }
    StageCosts& costs = result.costs;
    costs.forward_ns = to_ns(sum(result.forward) - result.hidden_forward_seconds);
    const double backward = sum(result.backward) - result.hidden_backward_seconds;
    const std::int64_t whole_ns = to_ns(backward - result.hidden_seconds);
    costs.backward_weight_ns = std::min(whole_ns, to_ns(weight));
    costs.backward_input_ns = whole_ns - costs.backward_weight_ns;
    result.lone_backward_input_ns = to_ns(backward) - costs.backward_weight_ns;
    fill_bytes(result, layer, is_block);
    return result;
  }

  // From now on each block's forward and backward wait so long for their kernels to be launched.
  void wait_for_launches(double forward_seconds, double backward_seconds) {
    waits_ = {forward_seconds, backward_seconds};
  }

 private:
  static double sum(const ClassSeconds& of) { return std::accumulate(of.begin(), of.end(), 0.0); }

  bool has_rate(Precision precision) const {
    return device_.flops_per_second[static_cast<std::size_t>(precision)].has_value();
  }

  // The rest up to the least time is spent launching kernels.
  static void raise(ClassSeconds& of, double hidden, double least) {
    of[static_cast<std::size_t>(OperatorClass::host)] += std::max(0.0, least - sum(of) + hidden);
  }

  // The additional launch time with tensor parallelism, for forward and backward each.
  std::int64_t peers_ns() const {
    const HostFloor& host = software_.host;
    const std::int64_t further = training_.tensor_parallel - 1;
    if (further == 0) return 0;
    const bool is_far =
        training_.pipeline_parallel > 1 && training_.devices() > cluster_.devices_per_node;
    return host.peers_ns + further * host.peer_ns +
           (is_far ? host.far_peers_ns + further * host.far_peer_ns : 0);
  }

  // Of the processor, by a list of kernels.
  double launch_seconds(const Operator& one) const {
    const KernelList& list = *software_.kernels;
    const HostTimes& host = one.pass == Pass::forward ? list.host_forward : list.host_backward;
    const bool is_product = one.of == OperatorClass::matmul && one.product;
    return static_cast<double>(is_product ? host.product_ns : one.kernels * host.kernel_ns) * 1e-9;
  }

  double factor() const { return training_.software_factor.value_or(software_.efficiency); }

  // The traffic factor of an operator that only moves bytes.
  double traffic_of(const Operator& one) const {
    if (one.is_score_traffic) return device_.attention_traffic;
    if (one.of == OperatorClass::elementwise) return software_.elementwise_traffic;
    return 1;
  }

  // The share of the peak.
  double attention_share(Pass pass) const {
    return pass == Pass::forward
               ? device_.fused_attention_share
               : device_.fused_attention_backward_share.value_or(device_.fused_attention_share);
  }

  double seconds_of(const Operator& one, bool is_head) const {
    // 8-bit inputs are those of blocks' GEMMs with weights.
    const bool is_wide =
        (one.of == OperatorClass::attention || is_head) && has_rate(Precision::bf16);
    const Precision precision =
        training_.precision == Precision::fp8 && is_wide ? Precision::bf16 : training_.precision;
    if (one.time_ns) return static_cast<double>(*one.time_ns) * 1e-9;
    if (by_kernel_ && !one.collective) {
      if (one.product) {
        const double own = precision == Precision::fp8 ? software_.fp8_efficiency : 1;
        return by_kernel_->product_seconds(precision, *one.product, factor() * own);
      }
      if (one.flops == 0 || one.of != OperatorClass::attention) {
        return by_kernel_->memory_seconds(one.traffic, one.bytes * traffic_of(one), one.kernels);
      }
      return by_kernel_->attention_seconds(precision, one.pass, one.flops,
                                           training_.sequence_length, factor());
    }
    if (one.product) {
      const double own = precision == Precision::fp8 ? software_.fp8_efficiency : 1;
      return product_seconds(device_, precision, *one.product, factor() * own);
    }
    if (one.collective) {
      return exchange(cluster_, tensor_group_, *one.collective, one.bytes).seconds();
    }
    if (one.flops == 0) return memory_seconds(device_, one.bytes * traffic_of(one), one.kernels);
    const bool is_attention = one.of == OperatorClass::attention;
    const double share = is_attention ? attention_share(one.pass) : device_.matmul.peak_share;
    return work_seconds(device_, precision, one.flops, share * factor(), one.bytes, one.kernels);
  }

  void fill_bytes(LayerEstimate& result, int layer, bool is_block) const {
    double saved = 0;
    double again = 0;      // saved only from the recomputation on
    double workspace = 0;  // of the operator that needs most
    double residue = 0;
    double parameters = 0;
    for (const Operator& one : result.operators) {
      saved += one.saved_bytes;
      if (is_block && training_.recompute.includes(one.part)) again += one.remade_bytes;
      residue += one.residue_bytes;
      workspace = std::max(workspace, one.workspace_bytes);
      parameters += one.parameters;
    }
    const double value = static_cast<double>(bytes_of(training_.precision));
    const double tokens =
        static_cast<double>(training_.micro_batch_size * training_.sequence_length);
    const double split = training_.tensor_parallel;
    const double hidden = tokens * static_cast<double>(model_.hidden_size) * value;
    // A recomputed block keeps only its input.
    if (is_block && training_.recompute.full) {
      again = saved;
      const double residual =
          software_.kernels ? static_cast<double>(software_.kernels->residual_bytes) / 2 : 1;
      saved = residual * hidden / (training_.sequence_parallel ? split : 1);
      again -= std::min(saved, again);
    } else {
      saved -= again;
    }
    StageCosts& costs = result.costs;
    const double kept = software_.activation_memory;
    costs.activation_bytes = to_bytes(kept * saved);
    costs.weight_residue_bytes = to_bytes(kept * residue);
    const double placeholders = software_.keeps_placeholders ? value * parameters : 0;
    costs.workspace_bytes = to_bytes(kept * (again + workspace) + placeholders);
    // Each rank of a tensor-parallel group sends a part of their common output.
    costs.output_bytes = to_bytes(hidden / split);
    if (model_.is_listed()) {
      const ListedLayer& own = model_.list[static_cast<std::size_t>(layer)];
      costs.output_bytes = to_bytes(static_cast<double>(own.output_bytes) *
                                    static_cast<double>(training_.micro_batch_size));
    }
    result.parameters = to_bytes(parameters);
    if (!model_.is_listed() && model_.is_head(layer) && model_.tied_head) {
      result.tied_parameters = (model_.vocabulary_size + training_.tensor_parallel - 1) /
                               training_.tensor_parallel * model_.hidden_size;
    }
    fill_states(costs, training_, software_, result.parameters);
  }

  const Model& model_;
  const Cluster& cluster_;
  const DeviceSpec& device_;
  const SoftwareSpec& software_;
  const Training& training_;
  Group tensor_group_;
  std::optional<ListedTimes> by_kernel_;  // if the software lists its kernels
  std::array<double, 2> waits_{};
};

// ---- Stages

// Blocks as even as possible, the remainder from the second stage on: the ends also have the
// embedding and the head.
std::vector<int> usual_layout(const Model& model, int stages) {
  if (model.is_listed()) return even_layout(model.layers(), stages);
  const int blocks = static_cast<int>(model.blocks);
  std::vector<int> sizes(static_cast<std::size_t>(stages), blocks / stages);
  for (int i = 0; i < blocks % stages; ++i) {
    ++sizes[static_cast<std::size_t>((i + 1) % stages)];
  }
  ++sizes.front();
  ++sizes.back();
  return sizes;
}

// A stage ends with the first layer that brings the FLOPs so far over its part of all, as far as
// each stage has a layer (nanotron, src/nanotron/models/base.py, build_model).
std::vector<int> layout_by_cost(const Model& model, int stages) {
  const double head = static_cast<double>(model.vocabulary_size * model.hidden_size);
  const double block =
      static_cast<double>(2 * model.hidden_size * (model.attention_size() + model.kv_size())) +
      static_cast<double>((model.is_gated() ? 3 : 2) * model.mlp_size * model.hidden_size);
  const int layers = model.layers();
  const double all = block * static_cast<double>(model.blocks) + head;
  std::vector<int> sizes(static_cast<std::size_t>(stages), 0);
  double so_far = 0;
  int stage = 0;
  for (int layer = 0; layer < layers; ++layer) {
    // The rest get one layer each.
    if (sizes[static_cast<std::size_t>(stage)] > 0 && layers - layer < stages - stage) ++stage;
    ++sizes[static_cast<std::size_t>(stage)];
    if (!model.is_embedding(layer)) so_far += model.is_head(layer) ? head : block;
    const bool is_full = so_far > all * (stage + 1) / stages;
    if (is_full && stage + 1 < stages && layers - layer > 1) ++stage;
  }
  return sizes;
}

// On one rank the embedding's table and the head's copy are one matrix.
bool has_both_ends(const Placement& placement) {
  return placement.has(placement.rank_of(0), placement.stages() - 1);
}

std::vector<StageShare> shares_of(const CostModel& model, const PipelineShape& shape) {
  const Training& training = model.training();
  const auto buckets = [&](std::int64_t parameters) {
    const std::int64_t bytes = parameters * training.gradient_bytes;
    const std::int64_t bucket = training.bucket_bytes.value_or(std::max<std::int64_t>(1, bytes));
    return std::max<std::int64_t>(1, bytes / bucket + (bytes % bucket > 0));
  };
  const bool has_both = has_both_ends(shape.placement);
  std::vector<StageShare> shares;
  for (const std::vector<LayerRun>& runs : model.runs(shape)) {
    StageShare& share = shares.emplace_back();
    std::int64_t before = 0;
    for (const LayerRun& run : runs) {
      const LayerEstimate& one = *run.each;
      share.layers += run.count;
      const std::int64_t parameters = one.parameters - (has_both ? one.tied_parameters : 0);
      share.parameters += run.count * parameters;
      share.buckets += run.count * buckets(parameters);
      share.largest_layer = std::max(share.largest_layer, parameters);
      const std::int64_t neighbour = run.count > 1 ? parameters : before;
      share.largest_neighbours =
          std::max({share.largest_neighbours, before + parameters, neighbour + parameters});
      before = parameters;
    }
  }
  return shares;
}

// ---- Model FLOPs, of a sequence's forward

// Scores and context, of all pairs of tokens.
double core_flops(const Model& model, const Training& training) {
  if (model.architecture == Architecture::mlp) return 0;
  const auto length = static_cast<double>(training.sequence_length);
  return 4 * length * length * static_cast<double>(model.attention_size());
}

double block_flops(const Model& model, const Training& training) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double s = number(training.sequence_length);
  const double h = number(model.hidden_size);
  if (model.architecture == Architecture::mlp) return 2 * s * h * h;
  const double heads = number(model.attention_size());
  const double kv = number(model.kv_size());
  const double matrices = model.is_gated() ? 3 : 2;
  double flops = 2 * s * h * (2 * heads + 2 * kv) + core_flops(model, training) +
                 2 * s * h * matrices * number(model.mlp_size * model.experts_per_token);
  if (model.experts > 1) flops += 2 * s * h * number(model.experts);
  return flops;
}

}  // namespace

CostModel::CostModel(Model model, Cluster cluster, Training training)
    : model_(std::move(model)), cluster_(std::move(cluster)), training_(training) {
  check(training_, model_, cluster_);
  Estimator estimator(model_, cluster_, training_);
  if (model_.is_listed()) {
    for (int layer = 0; layer < model_.layers(); ++layer) kinds_.push_back(estimator.run(layer));
    return;
  }
  Training without = training_;
  without.recompute = {};
  std::optional<Estimator> plain;
  if (training_.recompute.blocks > 0) plain.emplace(model_, cluster_, without);
  for (const int layer : {0, 1, model_.layers() - 1}) kinds_.push_back(estimator.run(layer));
  if (plain) kinds_.push_back(plain->run(1));
  if (!cluster_.device.software.kernels) return;
  // The processor launches kernels ahead of the device, over all layers of a microbatch: only what
  // it takes longer in all is waited for.
  // A kind of block waits as if all were of it.
  const auto wait = [&](Estimator& one, std::size_t kind) {
    const LayerEstimate& block = kinds_[kind];
    const auto blocks = static_cast<double>(model_.blocks);
    const double of_block = block.launch_seconds[0] + block.launch_seconds[1];
    double late = blocks * (of_block - block.device_seconds);
    for (const std::size_t end : {std::size_t{0}, std::size_t{2}}) {
      const LayerEstimate& layer = kinds_[end];
      late += layer.launch_seconds[0] + layer.launch_seconds[1] - layer.device_seconds;
    }
    if (late <= 0) return;
    const double part = late / blocks / of_block;
    one.wait_for_launches(part * block.launch_seconds[0], part * block.launch_seconds[1]);
    kinds_[kind] = one.run(1);
  };
  wait(estimator, 1);
  if (plain) wait(*plain, 3);
}

const LayerEstimate& CostModel::layer(int layer) const {
  if (model_.is_listed()) return kinds_[static_cast<std::size_t>(layer)];
  return kinds_[model_.is_embedding(layer) ? 0 : model_.is_head(layer) ? 2 : 1];
}

std::vector<std::vector<LayerRun>> CostModel::runs(const PipelineShape& shape) const {
  std::vector<std::vector<LayerRun>> all;
  int next = 0;
  for (const int size : layout(shape)) all.push_back(runs(std::exchange(next, next + size), size));
  return all;
}

std::vector<LayerRun> CostModel::runs(int first, int count) const {
  std::vector<LayerRun> all;
  const int end = first + count;
  while (first < end) {
    const bool is_block =
        !model_.is_listed() && !model_.is_embedding(first) && !model_.is_head(first);
    const int next = is_block ? std::min(end, model_.layers() - 1) : first + 1;
    // All blocks of a stage are in one run: its first ones are computed again.
    const int most = is_block ? training_.recompute.blocks : 0;
    const int again = most > 0 ? std::min(most, next - first) : next - first;
    all.push_back({first, again, &layer(first)});
    if (first + again < next) all.push_back({first + again, next - first - again, &kinds_[3]});
    first = next;
  }
  return all;
}

std::vector<int> CostModel::layout(const PipelineShape& shape) const {
  const int stages = shape.placement.stages();
  if (shape.layout) return resolve_layout(shape.layout, model_.layers(), stages, model_.name);
  const std::int64_t most = model_.is_listed() ? model_.layers() : model_.blocks;
  if (stages > most) {
    throw input_error(
        fmt::format("{} has {}, fewer than the {}: each needs at least one; nearest valid: {}",
                    model_.name, plural(most, model_.is_listed() ? "layer" : "block"),
                    plural(stages, "virtual stage"), plural(most, "virtual stage")));
  }
  return cluster_.device.software.deals_by_cost && !model_.is_listed()
             ? layout_by_cost(model_, stages)
             : usual_layout(model_, stages);
}

StageCosts CostModel::layer_costs(int layer, const PipelineShape& shape) const {
  return costs_of(this->layer(layer), shape);
}

StageCosts CostModel::costs_of(const LayerEstimate& one, const PipelineShape& shape) const {
  StageCosts costs = one.costs;
  if (shape.splits_backward) costs.backward_input_ns = one.lone_backward_input_ns;
  if (one.tied_parameters > 0 && has_both_ends(shape.placement)) {
    fill_states(costs, training_, cluster_.device.software, one.parameters - one.tied_parameters);
  }
  return costs;
}

std::vector<std::int64_t> CostModel::parameters(const PipelineShape& shape) const {
  std::vector<std::int64_t> all;
  for (const StageShare& share : shares_of(*this, shape)) all.push_back(share.parameters);
  return all;
}

Costs CostModel::costs(const PipelineShape& shape) const {
  const Placement& placement = shape.placement;
  Costs result;
  result.compute_slowdown_ppm = cluster_.device.software.compute_slowdown_ppm;
  result.reserved_bytes = cluster_.device.software.reserved_bytes;
  for (const std::vector<LayerRun>& own : runs(shape)) {
    StageSum stage(fmt::format("--model, --stages: the layers of virtual stage {} of {}",
                               result.stages.size(), model_.name),
                   "use more stages, smaller layers or a smaller --micro-batch-size");
    for (const LayerRun& run : own) {
      stage.add(costs_of(*run.each, shape), run.count);
    }
    result.stages.push_back(stage.costs());
  }
  link_ranks(*this, placement, result);
  add_replicas(*this, placement, shares_of(*this, shape), result);
  return result;
}

std::int64_t CostModel::tokens(int microbatches) const {
  return microbatches * training_.micro_batch_size * training_.sequence_length *
         training_.data_parallel;
}

double CostModel::sequences(int microbatches) const {
  return static_cast<double>(microbatches * training_.micro_batch_size) * training_.data_parallel;
}

double CostModel::model_flops(int microbatches) const {
  double of_sequence = 0;
  if (model_.is_listed()) {
    for (const ListedLayer& one : model_.list) {
      of_sequence += one.forward_flops + one.backward_flops;
    }
    return of_sequence * sequences(microbatches);
  }
  const double logits = 2 * static_cast<double>(training_.sequence_length) *
                        static_cast<double>(model_.hidden_size) *
                        static_cast<double>(model_.vocabulary_size);
  of_sequence = static_cast<double>(model_.blocks) * block_flops(model_, training_) + logits;
  return 3 * of_sequence * sequences(microbatches);
}

std::int64_t CostModel::recomputed_blocks(const PipelineShape& shape) const {
  if (model_.is_listed() || !training_.recompute.exists()) return 0;
  std::int64_t blocks = 0;
  for (const std::vector<LayerRun>& stage : runs(shape)) {
    for (const LayerRun& run : stage) {
      if (run.each == &kinds_[1]) blocks += run.count;
    }
  }
  return blocks;
}

double CostModel::recomputed_flops(std::int64_t blocks, int microbatches) const {
  if (model_.is_listed()) return 0;
  double of_block = 0;
  if (training_.recompute.attention) of_block = core_flops(model_, training_);
  if (training_.recompute.full) of_block = block_flops(model_, training_);
  return static_cast<double>(blocks) * of_block * sequences(microbatches);
}

double CostModel::mfu(int microbatches, std::int64_t makespan_ns) const {
  const double peak =
      *cluster_.device.flops_per_second[static_cast<std::size_t>(training_.precision)];
  return model_flops(microbatches) / (peak * static_cast<double>(training_.devices()) *
                                      static_cast<double>(makespan_ns) * 1e-9);
}

}  // namespace pipesim
