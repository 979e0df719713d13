// When checkpoints are saved: at the end of which iterations, and whether they are written beside
// the next ones. Plain values; any thread.
#pragma once

#include "traces/accumulation.h"

namespace pipesim {

struct Saves {
  int every = 0;        // steps of the optimizer, without accumulation iterations; 0: never
  bool beside = false;  // a rank goes on once it has a copy, which is written beside

  bool any() const { return every > 0; }
  // Whether an iteration, counted from 0, of so many that follow each other ends with a SAVE:
  // it ends with a step, and that is the N-th, 2N-th and so on.
  bool saves(int iteration, int iterations, const Accumulation& accumulation = {}) const {
    return any() && accumulation.steps(iteration, iterations) &&
           (iteration / accumulation.passes + 1) % every == 0;
  }
  bool operator==(const Saves&) const = default;
};

}  // namespace pipesim
