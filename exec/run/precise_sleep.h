// Sleeps that end on time, on hosts with fewer processors than ranks.
#pragma once

#include <cstdint>

namespace pipesim::exec {

// Of one thread: it learns how late that thread's sleeps end.
class PreciseSleep {
 public:
  // Never returns early, by CLOCK_MONOTONIC. Sleeps for all but the time by which sleeps have
  // ended late so far, and spins through the rest: at most 60 us.
  void until(std::int64_t monotonic_ns);
  // When to get up from a wait of another kind, to spin through the rest.
  std::int64_t wake_ns(std::int64_t monotonic_ns) const { return monotonic_ns - usually_late_ns_; }
  // A sleep that was to end then has ended now.
  void learn(std::int64_t wake_ns);

 private:
  std::int64_t usually_late_ns_ = 0;
};

}  // namespace pipesim::exec
