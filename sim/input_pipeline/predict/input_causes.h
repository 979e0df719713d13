// Why the time of a measured run of an input pipeline differs from the prediction.
// The measured run is replayed with its own times; then with the predicted times of one kind of
// action, on all ranks or on one, instead of its own: the time that a batch saves is that cause's
// effect. Effects of several causes need not add up: removing one may expose another. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/input_pipeline/input_run.h"

namespace pipesim {

struct InputCause {
  std::optional<Kind> kind;    // none: the host's calls
  std::optional<int> rank;     // none: all of them
  std::int64_t effect_ns = 0;  // per steady iteration; positive: lost by the run
};

struct InputCauses {
  std::int64_t predicted_ns = 0, measured_ns = 0;  // steady iterations
  // Of the replayed measured run; no action explains what it took longer than that.
  std::int64_t replayed_ns = 0;
  std::vector<InputCause> causes;  // sorted by absolute effect, the largest first

  std::int64_t unexplained_ns() const { return measured_ns - replayed_ns; }
};

// Of two runs of one program. Kinds, then single ranks of those that matter most, within a limit on
// replayed calls.
InputCauses find_input_causes(const InputRun& predicted, const InputRun& measured);

}  // namespace pipesim
