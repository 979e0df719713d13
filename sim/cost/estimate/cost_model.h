// What a model costs on a cluster: the time and bytes of every layer, and from
// them the costs of a pipeline's stages.
//
// The estimate is a roofline by operator; sim/cost/ESTIMATE.md says each formula. A
// CostModel is made for one model, cluster and training, and never changes;
// any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/cost/estimate/operators.h"
#include "sim/cost/estimate/training.h"

namespace pipesim {

using ClassSeconds = std::array<double, operator_class_count>;

// Of one microbatch on one tensor-parallel rank.
struct LayerEstimate {
  std::vector<Operator> operators;
  std::vector<double> seconds;  // of each operator by itself
  // By class: the forward, the backward, and in it what is computed again.
  ClassSeconds forward{};
  ClassSeconds backward{};
  ClassSeconds recompute{};
  // Of tensor-parallel exchanges, not taken off `forward` and `backward`: what products hide, and
  // what weight gradients hide where a backward is whole.
  double hidden_forward_seconds = 0;
  double hidden_backward_seconds = 0;  // whatever the schedule
  double hidden_seconds = 0;
  // What it keeps, and what a rank that holds it has; of a whole backward.
  StageCosts costs;
  // The same where I and W run apart, and weight gradients hide nothing.
  std::int64_t lone_backward_input_ns = 0;
  std::int64_t parameters = 0;       // that a rank holds, of which
  std::int64_t tied_parameters = 0;  // are another layer's, too
};

// How a schedule uses the costs.
struct PipelineShape {
  Placement placement;
  bool splits_backward = false;            // I and W apart
  std::optional<std::vector<int>> layout;  // layers a virtual stage; else blocks as even as can be
};

class CostModel {
 public:
  // Throws where check() does.
  CostModel(Model model, Cluster cluster, Training training);

  const Model& model() const { return model_; }
  const Cluster& cluster() const { return cluster_; }
  const Training& training() const { return training_; }
  const LayerEstimate& layer(int layer) const;
  // The first layer behind it that may not be like it: blocks are alike.
  int next_kind(int layer) const;

  // Layers of each virtual stage, checked.
  std::vector<int> layout(const PipelineShape& shape) const;
  // That one device computes with, of each virtual stage.
  std::vector<std::int64_t> parameters(const PipelineShape& shape) const;
  // On the rate of products.
  double software_factor() const {
    return training_.software_factor.value_or(cluster_.device.software.efficiency);
  }
  // Of one layer, without what its stage adds: messages, replicas.
  StageCosts layer_costs(int layer, const PipelineShape& shape) const;
  Costs costs(const PipelineShape& shape) const;

  // Of an iteration over all replicas; samples where the model is a list.
  std::int64_t tokens(int microbatches) const;
  // What the model needs, whatever is computed again: 72BLsh^2(1+s/6h+V/12hL)
  // for a GPT (Narayanan et al., arXiv 2104.04473, without their recomputation).
  double model_flops(int microbatches) const;
  // What blocks compute a second time for their backward, counted alike: products alone.
  double recomputed_flops(int microbatches) const;
  // The model's as a share of what all devices could do in so many nanoseconds.
  double mfu(int microbatches, std::int64_t makespan_ns) const;

 private:
  double sequences(int microbatches) const;  // of an iteration over all replicas

  Model model_;
  Cluster cluster_;
  Training training_;
  std::vector<LayerEstimate> kinds_;  // embedding, block, head; or one a listed layer
};

}  // namespace pipesim
