// What the ranks of an iteration spend their time on, to explain the difference between two
// schedules of the same model.
//
// Plain values; pure functions, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/cost/costs.h"
#include "sim/schedule/schedule.h"
#include "traces/metrics.h"

namespace pipesim {

enum class TimePart : std::uint8_t {
  compute,   // F, I, W and B, each as long as it takes alone
  overlap,   // of a forward and a backward in one cell, against one after the other: mostly < 0
  messages,  // compute that sending and receiving take
  closing,   // reductions, norm and optimizer after a rank's last action
  slowdown,  // compute slowed by transfers
  warmup,    // idle, by cause, as Bubble has it
  steady,
  drain,
  p2p,
};
inline constexpr std::size_t time_part_count = 9;

// Nanoseconds of all ranks together. They sum to the makespan times the ranks.
struct TimeParts {
  std::array<std::int64_t, time_part_count> ns{};

  std::int64_t& of(TimePart part) { return ns[static_cast<std::size_t>(part)]; }
  std::int64_t of(TimePart part) const { return ns[static_cast<std::size_t>(part)]; }
};

constexpr bool is_idle(TimePart part) { return part >= TimePart::warmup; }
// A word, as keys and messages have it.
const char* name_of(TimePart part);

// `metrics`: of one iteration of the schedule by these costs.
TimeParts time_parts(const Schedule& schedule, const Costs& costs, const Metrics& metrics);

}  // namespace pipesim
