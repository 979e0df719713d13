// Gradient accumulation: several iterations, each a pass over all microbatches, per step.
//
// Every pass adds to the gradients of the passes before it; the last one ends the step with the
// sums over replicas, the norm and the optimizer. Plain values; any thread.
#pragma once

namespace pipesim {

struct Accumulation {
  int passes = 1;  // per step
  // Gradients are reduced in every pass, not only in the last: no rank keeps full gradients.
  bool reduces_each = false;
  // Weights are gathered in every pass, not only in the first one after a step.
  bool gathers_each = true;

  // Whether an iteration, counted from 0 of `iterations`, ends with a step: every passes-th does,
  // and the last.
  bool steps(int iteration, int iterations) const {
    return (iteration + 1) % passes == 0 || iteration + 1 == iterations;
  }
  bool gathers(int iteration) const { return gathers_each || iteration % passes == 0; }
};

}  // namespace pipesim
