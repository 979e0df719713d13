// A rank's clock: CLOCK_MONOTONIC in nanoseconds, shared by all ranks on a host. Clocks of other
// hosts have other offsets and rates.
#pragma once

#include <cstdint>

namespace pipesim::exec {

class Clock {
 public:
  Clock() = default;
  // Emulates the clock of another host: ahead by `offset_ns` at the instant `since_ns` of this one,
  // and gaining `drift_ppb` nanoseconds per second.
  Clock(std::int64_t offset_ns, std::int64_t drift_ppb, std::int64_t since_ns)
      : offset_ns_(offset_ns), drift_ppb_(drift_ppb), since_ns_(since_ns) {}

  std::int64_t now_ns() const { return shown_at(monotonic_ns()); }
  // Its time at an instant of this host's own clock.
  std::int64_t shown_at(std::int64_t monotonic) const;
  bool is_own() const { return offset_ns_ == 0 && drift_ppb_ == 0; }

  static std::int64_t monotonic_ns();

 private:
  std::int64_t offset_ns_ = 0;
  std::int64_t drift_ppb_ = 0;
  std::int64_t since_ns_ = 0;
};

}  // namespace pipesim::exec
