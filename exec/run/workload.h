// What a rank's stages do when it is their turn: train a model, or only take
// the time that costs say.
//
// The worker (worker.h) decides when and passes tensors on; a workload never
// sees the program. All ranks call start_iteration() and finish_iteration()
// together. One rank, one thread.
#pragma once

#include "exec/model/tensor.h"
#include "traces/action.h"

namespace pipesim::exec {

// What an iteration comes to, the same on all ranks.
struct Outcome {
  double loss = 0;           // mean over tokens, in nats
  double gradient_norm = 0;  // of the mean gradient, before clipping
};

class Workload {
 public:
  virtual ~Workload() = default;

  // Iterations are counted from 0. What is done here is not measured.
  virtual void start_iteration(int iteration) = 0;
  // An F, I, W or B: its result from its input, empty where there is none.
  virtual Tensor run(const Action& action, Tensor input) = 0;
  // After the rank's list: gradients are reduced and weights step.
  virtual Outcome finish_iteration() = 0;
};

}  // namespace pipesim::exec
