// The costs of a model on a cluster: the time and bytes of every layer, and from them the costs of
// a pipeline's stages. The estimate is a roofline by operator; sim/cost/ESTIMATE.md has each
// formula. A CostModel is for one model, cluster and training, and immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/cost/estimate/operators.h"
#include "sim/cost/estimate/training.h"
#include "sim/cost/model_flops.h"

namespace pipesim {

using ClassSeconds = std::array<double, operator_class_count>;

// For one microbatch on one tensor-parallel rank.
struct LayerEstimate {
  std::vector<Operator> operators;
  std::vector<double> seconds;  // of each operator by itself
  // By class: the forward, the backward, and the recomputation in it.
  ClassSeconds forward{};
  ClassSeconds backward{};
  ClassSeconds recompute{};
  // The part of tensor-parallel exchanges, not subtracted from `forward` and `backward`, that GEMMs
  // hide, and that weight gradients hide if a backward is not split.
  double hidden_forward_seconds = 0;
  double hidden_backward_seconds = 0;  // whatever the schedule
  double hidden_seconds = 0;
  // What is saved if another microbatch's backward runs beside a forward, and either's exchanges of
  // experts behind the other's compute.
  double hidden_by_pair_seconds = 0;
  // Of a device, and of the processor that launches listed kernels, forward and backward.
  double device_seconds = 0;
  std::array<double, 2> launch_seconds{};
  // Times, activations and states, with a backward that is not split.
  StageCosts costs;
  // The same if I and W run separately, and weight gradients hide nothing.
  std::int64_t lone_backward_input_ns = 0;
  std::int64_t parameters = 0;         // held by a rank, of which
  std::int64_t expert_parameters = 0;  // are routed experts'
  std::int64_t tied_parameters = 0;    // belong to another layer, too
};

// Layers, one after another, that are alike.
struct LayerRun {
  int first = 0;
  int count = 0;
  const LayerEstimate* each = nullptr;  // of the model
};

// How a schedule uses the costs.
struct PipelineShape {
  Placement placement;
  bool splits_backward = false;            // I and W separate
  std::optional<std::vector<int>> layout;  // layers per virtual stage; else as even as possible
};

class CostModel {
 public:
  // Throws if check() does.
  CostModel(Model model, Cluster cluster, Training training);

  const Model& model() const { return model_; }
  const Cluster& cluster() const { return cluster_; }
  const Training& training() const { return training_; }
  // A block is one that --recompute is about.
  const LayerEstimate& layer(int layer) const;
  // The layers of each virtual stage, those alike together.
  std::vector<std::vector<LayerRun>> runs(const PipelineShape& shape) const;

  // Layers of each virtual stage, checked.
  std::vector<int> layout(const PipelineShape& shape) const;
  // Those that one device computes with, by virtual stage.
  std::vector<std::int64_t> parameters(const PipelineShape& shape) const;
  // Of those, routed experts'.
  std::vector<std::int64_t> expert_parameters(const PipelineShape& shape) const;
  // On the rate of GEMMs.
  double software_factor() const {
    return training_.software_factor.value_or(cluster_.device.software.efficiency);
  }
  // Of one layer, without those of its stage: messages, replicas.
  StageCosts layer_costs(int layer, const PipelineShape& shape) const;
  Costs costs(const PipelineShape& shape) const;

  // Per iteration over all replicas; samples if the model is a list.
  std::int64_t tokens(int microbatches) const;
  // Without recomputation: 72BLsh^2(1+s/6h+V/12hL) for a GPT (Narayanan et al., arXiv 2104.04473,
  // without their recomputation); model_flops.h.
  double model_flops(int microbatches) const;
  // Recomputed for the backward of a microbatch of all replicas, counted in the same way: GEMMs
  // only.
  double recomputed_flops(const PipelineShape& shape) const;
  // The model's FLOPs as a share of all devices' peak in so many nanoseconds.
  double mfu(int microbatches, std::int64_t makespan_ns) const;

 private:
  double sequences(int microbatches) const;                // per iteration over all replicas
  std::vector<LayerRun> runs(int first, int count) const;  // of one virtual stage
  StageCosts costs_of(const LayerEstimate& one, const PipelineShape& shape) const;

  Model model_;
  Cluster cluster_;
  Training training_;
  // Of layers that are alike one: by layer, which.
  std::vector<LayerEstimate> estimates_;
  std::vector<LayerEstimate> plain_;  // those of blocks not computed again, if only some are
  std::vector<std::size_t> of_layer_;
};

}  // namespace pipesim
