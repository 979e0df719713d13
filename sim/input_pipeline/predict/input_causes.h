// Why a measured run of an input pipeline takes another time than the prediction.
//
// The measured run is played again with its own times; then with the predicted times of one kind of
// action, on all ranks or on one, in place of its own: what a batch takes less is that cause's
// effect. Effects of several causes need not add up: what one hides, another may lay bare. Pure;
// any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/input_pipeline/input_run.h"

namespace pipesim {

struct InputCause {
  std::optional<InputKind> kind;  // none: what the host takes to call things
  std::optional<int> rank;        // none: all of them
  std::int64_t effect_ns = 0;     // of a steady iteration; positive: the run loses it
};

struct InputCauses {
  std::int64_t predicted_ns = 0, measured_ns = 0;  // steady iterations
  // Of the measured run played again: what it takes more than that, no action explains.
  std::int64_t replayed_ns = 0;
  std::vector<InputCause> causes;  // by the size of their effects, the largest first

  std::int64_t unexplained_ns() const { return measured_ns - replayed_ns; }
};

// Of two runs of one program. Kinds, then single ranks of those that matter most, while they don't
// take more than so many calls to play again.
InputCauses find_input_causes(const InputRun& predicted, const InputRun& measured);

}  // namespace pipesim
