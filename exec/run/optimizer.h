// The end of an iteration: tied gradients are added up, the global norm is
// found, and AdamW steps.
//
// Gradients are sums over tokens until here; they are divided, once, by the
// number of tokens of the iteration. The norm is a sum over parameters in the
// order of the model, made on rank 0, so that it has the same bits whatever
// the partition. Every rank calls the same functions in the same order.
#pragma once

#include <optional>
#include <vector>

#include "exec/run/recorder.h"
#include "exec/run/stage.h"
#include "exec/run/training.h"
#include "exec/run/workload.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

// What AdamW does at a step, counted from 0, after gradients of that norm.
AdamStep adam_step(const TrainingJob& training, int step, double gradient_norm);
// One step of all parameters of a layer.
void step_layer(Device& device, Layer& layer, AdamStep step);
// The mean of losses of tokens, summed in double in their order.
double mean_loss(const std::vector<float>& losses);

// The sums of squares of tensors of float32, in their order.
std::vector<double> sums_of_squares(Device& device, Pool& pool,
                                    const std::vector<const Tensor*>& tensors);

class Optimizer {
 public:
  Optimizer(const TrainingJob& training, Device& device, Transport& transport, Pool& pool,
            std::vector<std::unique_ptr<Stage>>& stages, Recorder& recorder);

  // `losses` of all tokens, on the rank that holds the head. The outcome, and
  // with it the gradients as the optimizer will use them but for the division
  // and clipping, stand before the weights change.
  Outcome reduce(const std::vector<float>& losses);
  void step(int step, const Outcome& outcome);

 private:
  Tensor exchange_tied_gradient();
  void add_tied_gradient(const Layer& layer, const Tensor& theirs);
  Layer* layer_at(int index) const;  // null where another rank holds it

  const TrainingJob& training_;
  Device& device_;
  Transport& transport_;
  Pool& pool_;
  std::vector<std::unique_ptr<Stage>>& stages_;
  Recorder& recorder_;
};

}  // namespace pipesim::exec
