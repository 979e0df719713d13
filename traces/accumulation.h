// Gradient accumulation: several iterations, each a pass of all microbatches, to one step.
//
// Every pass adds to the gradients of those before; the last of a step has what ends it: the
// sums over replicas, the norm, the optimizer. Plain values; any thread.
#pragma once

namespace pipesim {

struct Accumulation {
  int passes = 1;  // to a step
  // Gradients are reduced in every pass, not in the last alone: no rank keeps whole ones.
  bool reduces_each = false;
  // Weights are gathered in every pass, not in the first behind a step alone, which makes new ones.
  bool gathers_each = true;

  // Whether an iteration, counted from 0, of so many that follow each other ends with a step:
  // every so many, and the last.
  bool steps(int iteration, int iterations) const {
    return (iteration + 1) % passes == 0 || iteration + 1 == iterations;
  }
  bool gathers(int iteration) const { return gathers_each || iteration % passes == 0; }
};

}  // namespace pipesim
