// What a model costs on a cluster: the time and bytes of every layer, and from
// them the costs of a pipeline's stages.
//
// The estimate is a roofline by operator; METRICS.md says each formula. A
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

// Seconds of one microbatch on one tensor-parallel rank, by class of operator.
struct LayerTimes {
  ClassSeconds forward{};
  ClassSeconds backward_input{};  // without what is computed again
  ClassSeconds backward_weight{};
  ClassSeconds recompute{};  // part of the backward
  double hidden = 0;         // of reductions, where a backward is whole
};

struct LayerEstimate {
  std::vector<Operator> operators;
  std::vector<double> seconds;  // of each operator by itself
  LayerTimes times;
  StageCosts costs;            // per microbatch; states a rank
  double parameters = 0;       // a rank holds, of which
  double tied_parameters = 0;  // are another layer's, too
};

// How a schedule uses the costs.
struct PipelineShape {
  Placement placement;
  int microbatches = 1;
  bool splits_backward = false;  // I and W apart: nothing hides a reduction
};

class CostModel {
 public:
  // Throws where check() does.
  CostModel(Model model, Cluster cluster, Training training);

  const Model& model() const { return model_; }
  const Cluster& cluster() const { return cluster_; }
  const Training& training() const { return training_; }
  // One a layer; like layers are worked out once.
  const std::vector<LayerEstimate>& layers() const { return layers_; }

  // The costs of the stages of a pipeline. `layout`: layers a virtual stage,
  // else as even as can be, embedding and head aside.
  Costs costs(const PipelineShape& shape, const std::optional<std::vector<int>>& layout) const;

  // Of all microbatches of one pipeline and its replicas.
  std::int64_t tokens(int microbatches) const;
  // What the model needs, whatever is computed again: 72BLsh^2(1+s/6h+V/12hL)
  // for a GPT (Narayanan et al., arXiv 2104.04473).
  double model_flops(int microbatches) const;
  // By how much of the devices' peak that is, in so many nanoseconds.
  double mfu(int microbatches, std::int64_t makespan_ns) const;

 private:
  Model model_;
  Cluster cluster_;
  Training training_;
  std::vector<LayerEstimate> layers_;
};

}  // namespace pipesim
