// Sleeps that end on time, even on hosts with fewer processors than ranks.
#pragma once

#include <cstdint>

namespace pipesim::exec {

// Used by one thread: it learns how late that thread's sleeps end.
class PreciseSleep {
 public:
  // Never returns early, by CLOCK_MONOTONIC. Sleeps for all but the usual lateness of sleeps so
  // far, and spins through the rest: at most 60 us.
  void until(std::int64_t monotonic_ns);
  // When to wake up from a wait of another kind, to spin through the rest.
  std::int64_t wake_ns(std::int64_t monotonic_ns) const { return monotonic_ns - usually_late_ns_; }
  // Tells it that a sleep until `wake_ns` has just ended.
  void learn(std::int64_t wake_ns);

 private:
  std::int64_t usually_late_ns_ = 0;
};

}  // namespace pipesim::exec
