// What saving checkpoints adds to a run, on average.
//
// Found by simulation: a save ends the second of two iterations, or each one if each saves (of
// two steps, if gradients are accumulated), and the stall is the extra time of such a period over
// one without saves. It is the same for saves further
// apart, with one exception: an asynchronous save waits for the one before if the iterations
// between take less time than writing it.
// Calls share nothing; any thread.
#pragma once

#include <cstdint>

#include "sim/engine/simulate.h"

namespace pipesim {

struct SaveEffect {
  Saves saves;
  std::int64_t bytes = 0;     // of a checkpoint
  std::int64_t stall_ns = 0;  // that a save adds to the run
  std::int64_t saved_ns = 0;  // from when the first rank begins until publication
  // The mean over all iterations, further ones as in steady_iteration_ns, saves included.
  std::int64_t mean_iteration_ns = 0;
  std::int64_t iteration_ns = 0;  // the same without saves
  bool keeps_up = true;           // an asynchronous save never waits for the one before

  // Of a run's time.
  double fraction() const {
    if (mean_iteration_ns == 0) return 0;
    return 1 - static_cast<double>(iteration_ns) / static_cast<double>(mean_iteration_ns);
  }
};

// `options` have saves, the costs say what they take; its number of iterations and its sink don't
// matter.
SaveEffect save_effect(const Schedule& schedule, const Costs& costs,
                       const SimulationOptions& options);

}  // namespace pipesim
