// The identity of an action, which joins a prediction and a measurement.
//
// One key and one index, to find the same action in another run, in another
// iteration, or at the other end of a transfer. Plain values; any thread.
#pragma once

#include <compare>
#include <cstdint>

#include "traces/action.h"

namespace pipesim {

// Iteration, kind, stage, microbatch, number, and replica: which of several ranks with
// the same stage. Ordered by these, in this order.
class ActionKey {
 public:
  static constexpr std::int32_t max_replicas = 1 << 14;

  ActionKey() = default;
  // Iterations from -1 on, up to max_index; replicas below max_replicas.
  explicit constexpr ActionKey(const Action& action, std::int64_t iteration = 0,
                               std::int32_t replica = 0)
      : high_(bits(iteration + 1) << 33 | bits(static_cast<int>(action.kind)) << 26 |
              bits(action.stage) >> 4),
        low_(bits(action.stage) << 60 | bits(action.microbatch + 1) << 30 |
             bits(action.number) << 14 | bits(replica)) {
    static_assert(max_index < (1 << 30) - 1 && kind_count <= 1 << 7);
  }

  constexpr auto operator<=>(const ActionKey&) const = default;

 private:
  static constexpr std::uint64_t bits(std::int64_t value) {
    return static_cast<std::uint64_t>(value);
  }

  std::uint64_t high_ = 0;  // 31 bits of iteration, 7 of kind, 26 of stage
  std::uint64_t low_ = 0;   // 4 of stage, 30 of microbatch, 16 of number, 14 of replica
};

}  // namespace pipesim
