// The same training without a pipeline or replicas: one rank, no transport, no stages.
// All microbatches of a step pass layer by layer, forwards and then backwards. Weight gradients are
// summed, for each layer, in the order of the program: for a replica those of microbatches up to a
// REDUCE_GRAD, pass by pass, then these sums over replicas, and then over REDUCE_GRADs. The norm is
// summed over the pieces that ranks step, each separately. Shards of tensor-parallel ranks take
// turns. So a correct training has the same bits. Uses only layers, nothing of the worker. One
// thread calls it.
#pragma once

#include <memory>
#include <vector>

#include "exec/checkpoint/reader.h"
#include "exec/model/layer.h"
#include "exec/run/optimizer.h"
#include "exec/run/shards_in_turn.h"
#include "exec/run/training.h"

namespace pipesim::exec {

class Reference {
 public:
  Reference(const TrainingJob& training, Device& device);
  ~Reference();

  // Runs steps in order, each by its last pass. Afterwards the weights are updated; the gradients
  // are still those that the step used.
  Outcome run(const TrainingJob::Pass& last);
  // Resumes from a checkpoint that ends with a step.
  void load(const CheckpointReader& checkpoint);

  // A tensor-parallel rank's shard of a layer.
  const Layer& layer(int index, int shard) const {
    return *shards_[static_cast<std::size_t>(shard)].layers[static_cast<std::size_t>(index)];
  }

 private:
  struct Sequences;  // a step's sequences, on their way through the layers
  struct PassOf {    // a microbatch of a replica
    int pass;
    int microbatch;
  };
  struct Shard {
    LayerSetup setup;
    std::vector<std::unique_ptr<Layer>> layers;
    std::vector<std::unique_ptr<ParameterStore>> stores;  // by layer
    Tensor tokens, targets, losses;
  };
  // In the order of their gradients, grouped by REDUCE_GRAD.
  using Order = std::vector<std::vector<PassOf>>;

  std::size_t place_of(int pass, int replica, int microbatch) const;
  Shard make_shard(TensorGroup* group);
  Sequences forward(Shard& shard, const TrainingJob::Pass& last);
  Order order_of_stage(int stage, int copy, int passes) const;
  // `orders`: for each copy of the layer's stage.
  void backward(Shard& shard, int layer, const std::vector<Order>& orders, Sequences& sequences);
  void add_tied(Shard& shard);
  void add_up_partial();
  double mean_loss(const TrainingJob::Pass& last) const;
  double norm(const TrainingJob::Pass& last);

  const TrainingJob& training_;
  Device& device_;
  Pool pool_;
  ShardsInTurn turns_;
  std::vector<Shard> shards_;
};

// The difference of a worker's results from the reference's.
struct Verification {
  bool bitwise = true;
  // Of losses, norms, mean gradients and, after the last iteration, weights.
  double max_abs_error = 0;
  // The same, divided by the largest value of the parameter, or by the loss.
  double max_rel_error = 0;
  std::string worst;  // what has the largest relative error, for display; empty if all are equal

  // Of losses and norms alone, relative.
  double outcome_error = 0;

  // If the order of sums is the same, so must the bits be. A library has its own order: gradients
  // that are only rounding errors, such as those of a key's bias, and the weights stepped by them,
  // can't be compared then, but losses and norms can.
  static constexpr double max_by_library = 1e-5;
  bool is_right(bool by_library) const {
    return bitwise || (by_library && outcome_error <= max_by_library);
  }
};

// Compares every rank's results of an iteration that steps. Called on all ranks; `reference` and
// `result` are on rank 0 only, null elsewhere.
void compare_with_reference(const TrainingJob& training, Transport& transport, Device& device,
                            const std::vector<std::unique_ptr<Stage>>& stages, int iteration,
                            const Outcome& outcome, Reference* reference, Verification* result);

}  // namespace pipesim::exec
