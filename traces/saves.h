// When checkpoints are saved: at the end of which iterations, and whether they are written in the
// background. Plain values; any thread.
#pragma once

namespace pipesim {

struct Saves {
  int every = 0;        // iterations; 0: never
  bool beside = false;  // a rank continues once it has a copy, which is written in the background

  bool any() const { return every > 0; }
  // Whether an iteration, counted from 0, ends with a SAVE: the N-th, the 2N-th and so on.
  bool saves(int iteration) const { return any() && (iteration + 1) % every == 0; }
  bool operator==(const Saves&) const = default;
};

}  // namespace pipesim
