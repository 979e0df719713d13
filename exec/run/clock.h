// A rank's clock: CLOCK_MONOTONIC in nanoseconds, which all ranks of a host
// share. Those of other hosts started at other times and run at other rates.
#pragma once

#include <cstdint>

namespace pipesim::exec {

class Clock {
 public:
  Clock() = default;
  // As the clock of another host would be: ahead by `offset_ns` at the instant
  // `since_ns` of this one, and gaining `drift_ppb` nanoseconds a second.
  Clock(std::int64_t offset_ns, std::int64_t drift_ppb, std::int64_t since_ns)
      : offset_ns_(offset_ns), drift_ppb_(drift_ppb), since_ns_(since_ns) {}

  std::int64_t now_ns() const { return shown_at(monotonic_ns()); }
  // What it shows at an instant of this host's own clock.
  std::int64_t shown_at(std::int64_t monotonic) const;
  bool is_own() const { return offset_ns_ == 0 && drift_ppb_ == 0; }

  static std::int64_t monotonic_ns();

 private:
  std::int64_t offset_ns_ = 0;
  std::int64_t drift_ppb_ = 0;
  std::int64_t since_ns_ = 0;
};

}  // namespace pipesim::exec
