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
                 std::int64_t parameters, std::int64_t of_experts) {
  // Routed experts have replicas of their own.
  const auto part = [&](std::int64_t bytes, bool is_sharded) {
    const std::int64_t shards = is_sharded ? training.shards() : 1;
    const std::int64_t expert_shards = is_sharded ? training.expert_shards() : 1;
    return divide_up((parameters - of_experts) * bytes, shards) +
           divide_up(of_experts * bytes, expert_shards);
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
        groups_{group_of(training.mesh(1), Axis::tensor), group_of(training.mesh(1), Axis::context),
                group_of(training.expert_mesh(1), Axis::expert),
                group_of(training.expert_mesh(1), Axis::tensor)} {
    if (software_.kernels) {
      by_kernel_.emplace(device_, *software_.kernels, pace_of(cluster, training.devices()));
    }
  }

  LayerEstimate run(int layer) {
    LayerEstimate result;
    result.operators = layer_operators(model_, layer, training_, software_);
    const bool is_block = model_.is_block(layer) || model_.is_prediction(layer);
    double weight = 0;
    double hidden = 0;
    double hiding = 0;
    double exchanged[2] = {};  // forward, backward
    double around[2] = {};     // of those, rings' around attention
    double attention[2] = {};
    double products[2] = {};
    ClassSeconds again{};
    ClassSeconds last{};  // of what ends a layer and is not computed again
    const bool stops_early = software_.kernels && software_.kernels->stops_early;
    for (const Operator& one : result.operators) {
      const double seconds = seconds_of(one);
      result.seconds.push_back(seconds);
      const auto of = static_cast<std::size_t>(one.of);
      (one.pass == Pass::forward ? result.forward : result.backward)[of] += seconds;
      if (one.pass == Pass::forward && training_.recompute.includes(one.module)) {
        again[of] += seconds;
      } else if (training_.recompute.includes(one.part)) {
        again[of] += seconds * one.part_share;
      }
      if (one.pass == Pass::backward_weight) weight += seconds;
      if (one.is_hidden) hidden += seconds;
      const bool ends = one.is_of_head || (stops_early && one.ends_block);
      if (ends && one.pass == Pass::forward) last[of] += seconds;
      const std::size_t way = one.pass == Pass::forward ? 0 : 1;
      if (by_kernel_) result.launch_seconds[way] += launch_seconds(one);
      if (one.of == OperatorClass::tensor_parallel) exchanged[way] += seconds;
      if (one.of == OperatorClass::matmul) products[way] += seconds;
      if (one.of == OperatorClass::attention) attention[way] += seconds;
      if (one.hides_behind_attention) around[way] += seconds;
      if (one.hides_reduction) hiding += seconds;
    }
    if (training_.asynchronous_reduction) {
      const double part = hidden_exchange(training_, software_);
      result.hidden_forward_seconds = part * std::min(exchanged[0], products[0]);
      result.hidden_seconds = software_.hidden_reduction * std::min(hidden, hiding);
      result.hidden_backward_seconds = part * std::min(exchanged[1] - result.hidden_seconds,
                                                       products[1] - result.hidden_seconds);
    }
    if (training_.context_parallel > 1) {
      result.hidden_forward_seconds += hidden_ring(around[0], attention[0]);
      result.hidden_backward_seconds += hidden_ring(around[1], attention[1]);
    }
    result.hidden_by_pair_seconds = hidden_by_pair(result);
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

  // A step of a ring runs behind the attention to what the step before it brought; to the first
  // part nothing has to come.
  double hidden_ring(double exchanged, double attention) const {
    const double ranks = training_.context_parallel;
    return std::min(exchanged, attention * (ranks - 1) / ranks);
  }

  // A forward and another microbatch's backward, block by block: combine's gradients go out beside
  // the forward's attention; both dispatches beside experts; what experts made beside the
  // backward's attention (Megatron-Core, model_chunk_schedule_plan.py). Meanwhile the exchange has
  // so many multiprocessors (DeepEP's default, its README).
  double hidden_by_pair(const LayerEstimate& layer) const {
    constexpr double exchange_multiprocessors = 20;
    constexpr int phases = 4;
    double seconds[pass_count][phases] = {};
    for (std::size_t i = 0; i < layer.operators.size(); ++i) {
      const Operator& one = layer.operators[i];
      seconds[static_cast<int>(one.pass)][static_cast<int>(one.phase)] += layer.seconds[i];
    }
    const auto of = [&](Pass pass, ExpertPhase phase) {
      return seconds[static_cast<int>(pass)][static_cast<int>(phase)];
    };
    const auto forward = [&](ExpertPhase phase) { return of(Pass::forward, phase); };
    const auto backward = [&](ExpertPhase phase) { return of(Pass::backward_input, phase); };
    const double experts = forward(ExpertPhase::experts) + backward(ExpertPhase::experts) +
                           of(Pass::backward_weight, ExpertPhase::experts);
    const double hidden =
        std::min(backward(ExpertPhase::combine), forward(ExpertPhase::around)) +
        std::min(forward(ExpertPhase::dispatch) + backward(ExpertPhase::dispatch), experts) +
        std::min(forward(ExpertPhase::combine), backward(ExpertPhase::around));
    const auto processors = static_cast<double>(device_.multiprocessors);
    return hidden * std::max(0.0, 1 - exchange_multiprocessors / processors);
  }

  static Group group_of(const Mesh& mesh, Axis axis) {
    const std::int64_t block = mesh.stride(axis) * mesh.size(axis);
    return {mesh.group_of(0, axis), mesh.ranks() / block, block};
  }

  double exchange_seconds(const Operator& one) const {
    const Group& group = groups_[static_cast<std::size_t>(one.across)];
    if (!one.is_deduplicated) {
      return exchange(cluster_, group, *one.collective, one.bytes).seconds();
    }
    return deduplicated_exchange(cluster_, group, model_, one.bytes).seconds();
  }

  double seconds_of(const Operator& one) const {
    // 8-bit inputs are those of blocks' GEMMs with weights.
    const bool is_wide =
        (one.of == OperatorClass::attention || one.is_of_head) && has_rate(Precision::bf16);
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
      return exchange_seconds(one);
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
    double of_experts = 0;
    double of_head = 0;
    for (const Operator& one : result.operators) {
      saved += one.saved_bytes;
      if (is_block && training_.recompute.includes(one.module) && !one.is_entrance) {
        again += one.saved_bytes;
      } else if (is_block && training_.recompute.includes(one.part)) {
        again += one.remade_bytes;
      }
      of_experts += one.expert_parameters;
      if (one.is_of_head) of_head += one.saved_bytes;
      residue += one.residue_bytes;
      workspace = std::max(workspace, one.workspace_bytes);
      parameters += one.parameters;
    }
    const double value = static_cast<double>(bytes_of(training_.precision));
    const double tokens = static_cast<double>(training_.tokens_per_rank());
    const double split = training_.tensor_parallel;
    const double hidden = tokens * static_cast<double>(model_.hidden_size) * value;
    // A recomputed block keeps only its input.
    if (is_block && training_.recompute.full) {
      again = saved - of_head;
      const double residual =
          software_.kernels ? static_cast<double>(software_.kernels->residual_bytes) / 2 : 1;
      const double input = residual * hidden / (training_.sequence_parallel ? split : 1);
      saved = input + of_head;
      again -= std::min(input, again);
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
    result.expert_parameters = to_bytes(of_experts);
    if (!model_.is_listed() && model_.is_head(layer) && model_.tied_head) {
      result.tied_parameters =
          divide_up(model_.vocabulary_size, training_.tensor_parallel) * model_.hidden_size;
    }
    fill_states(costs, training_, software_, result.parameters, result.expert_parameters);
  }

  const Model& model_;
  const Cluster& cluster_;
  const DeviceSpec& device_;
  const SoftwareSpec& software_;
  const Training& training_;
  std::array<Group, 4> groups_;           // by Across
  std::optional<ListedTimes> by_kernel_;  // if the software lists its kernels
  std::array<double, 2> waits_{};
};

// ---- Stages

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
      share.expert_parameters += run.count * one.expert_parameters;
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

}  // namespace

CostModel::CostModel(Model model, Cluster cluster, Training training)
    : model_(std::move(model)), cluster_(std::move(cluster)), training_(std::move(training)) {
  check(training_, model_, cluster_);
  Estimator estimator(model_, cluster_, training_);
  if (model_.is_listed()) {
    for (int layer = 0; layer < model_.layers(); ++layer) {
      estimates_.push_back(estimator.run(layer));
      of_layer_.push_back(static_cast<std::size_t>(layer));
    }
    return;
  }
  // Layers that are alike are estimated once.
  const auto first_alike = [&](int layer) {
    int first = layer;
    if (model_.is_block(layer)) {
      first = 1;
      while (model_.kind_of(first) != model_.kind_of(layer)) ++first;
    } else if (model_.is_prediction(layer)) {
      first = static_cast<int>(model_.blocks) + 1;
    }
    return first;
  };
  for (int layer = 0; layer < model_.layers(); ++layer) {
    const int first = first_alike(layer);
    of_layer_.push_back(first == layer ? estimates_.size()
                                       : of_layer_[static_cast<std::size_t>(first)]);
    if (first == layer) estimates_.push_back(estimator.run(layer));
  }
  Training without = training_;
  without.recompute = {};
  std::optional<Estimator> plain;
  if (training_.recompute.blocks > 0) {
    plain.emplace(model_, cluster_, without);
    for (int layer = 0; layer < model_.layers(); ++layer) {
      if (first_alike(layer) == layer) plain_.push_back(plain->run(layer));
    }
  }
  if (!cluster_.device.software.kernels) return;
  // The processor launches kernels ahead of the device, over all layers of a microbatch: only what
  // it takes longer in all is waited for. Blocks that are computed again, or are not, wait as if
  // all were such.
  const auto wait = [&](Estimator& one, std::vector<LayerEstimate>& estimates) {
    double late = 0;
    double of_blocks = 0;
    for (int layer = 0; layer < model_.layers(); ++layer) {
      const LayerEstimate& each = estimates[of_layer_[static_cast<std::size_t>(layer)]];
      const double launched = each.launch_seconds[0] + each.launch_seconds[1];
      late += launched - each.device_seconds;
      if (model_.is_block(layer)) of_blocks += launched;
    }
    if (late <= 0) return;
    for (int layer = 1; layer <= model_.blocks; ++layer) {
      if (first_alike(layer) != layer) continue;
      LayerEstimate& block = estimates[of_layer_[static_cast<std::size_t>(layer)]];
      const double part = late / of_blocks;
      one.wait_for_launches(part * block.launch_seconds[0], part * block.launch_seconds[1]);
      block = one.run(layer);
    }
  };
  wait(estimator, estimates_);
  if (plain) wait(*plain, plain_);
}

const LayerEstimate& CostModel::layer(int layer) const {
  return estimates_[of_layer_[static_cast<std::size_t>(layer)]];
}

std::vector<std::vector<LayerRun>> CostModel::runs(const PipelineShape& shape) const {
  std::vector<std::vector<LayerRun>> all;
  int next = 0;
  for (const int size : layout(shape)) all.push_back(runs(std::exchange(next, next + size), size));
  return all;
}

std::vector<LayerRun> CostModel::runs(int first, int count) const {
  std::vector<LayerRun> all;
  int again = training_.recompute.blocks;  // a stage's first blocks
  for (int layer = first; layer < first + count; ++layer) {
    const std::size_t alike = of_layer_[static_cast<std::size_t>(layer)];
    const bool is_plain = !plain_.empty() && model_.is_block(layer) && again-- <= 0;
    const LayerEstimate* each = is_plain ? &plain_[alike] : &estimates_[alike];
    if (!all.empty() && all.back().each == each) {
      ++all.back().count;
    } else {
      all.push_back({layer, 1, each});
    }
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
    fill_states(costs, training_, cluster_.device.software, one.parameters - one.tied_parameters,
                one.expert_parameters);
  }
  return costs;
}

std::vector<std::int64_t> CostModel::parameters(const PipelineShape& shape) const {
  std::vector<std::int64_t> all;
  for (const StageShare& share : shares_of(*this, shape)) all.push_back(share.parameters);
  return all;
}

std::vector<std::int64_t> CostModel::expert_parameters(const PipelineShape& shape) const {
  std::vector<std::int64_t> all;
  for (const StageShare& share : shares_of(*this, shape)) all.push_back(share.expert_parameters);
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
    double hidden = 0;
    for (const LayerRun& run : own) {
      stage.add(costs_of(*run.each, shape), run.count);
      hidden += run.count * run.each->hidden_by_pair_seconds;
    }
    StageCosts& costs = result.stages.emplace_back(stage.costs());
    if (hidden > 0) costs.overlap_ns = -to_ns(hidden);
  }
  link_ranks(*this, placement, result);
  // Known now that messages are.
  for (StageCosts& stage : result.stages) {
    if (stage.overlap_ns)
      *stage.overlap_ns += stage.duration_ns(Kind::F) + stage.duration_ns(Kind::B);
  }
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
  // What capacity drops of balanced tokens is not computed.
  const double routed = std::min(1.0, training_.expert_capacity.value_or(1));
  for (int layer = 0; layer < model_.layers(); ++layer) {
    of_sequence += layer_flops(model_, layer, training_.sequence_length, routed);
  }
  return 3 * of_sequence * sequences(microbatches);
}

double CostModel::recomputed_flops(const PipelineShape& shape) const {
  const Recompute& recompute = training_.recompute;
  if (model_.is_listed() || (!recompute.full && !recompute.attention)) return 0;
  const std::int64_t length = training_.sequence_length;
  double sum = 0;
  for (const std::vector<LayerRun>& stage : runs(shape)) {
    for (const LayerRun& run : stage) {
      if (!model_.is_block(run.first) || run.each != &layer(run.first)) continue;
      sum += run.count * (recompute.full ? layer_flops(model_, run.first, length)
                                         : core_flops(model_, model_.kind_of(run.first), length));
    }
  }
  return sum * sequences(1);
}

double CostModel::mfu(int microbatches, std::int64_t makespan_ns) const {
  const double peak =
      *cluster_.device.flops_per_second[static_cast<std::size_t>(training_.precision)];
  return model_flops(microbatches) / (peak * static_cast<double>(training_.devices()) *
                                      static_cast<double>(makespan_ns) * 1e-9);
}

}  // namespace pipesim
