#include "exec/run/clock.h"

#include <ctime>

namespace pipesim::exec {

std::int64_t Clock::monotonic_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::int64_t Clock::shown_at(std::int64_t monotonic) const {
  __extension__ using Wide = __int128;
  const auto gained = static_cast<Wide>(monotonic - since_ns_) * drift_ppb_ / 1'000'000'000;
  return monotonic + offset_ns_ + static_cast<std::int64_t>(gained);
}

}  // namespace pipesim::exec
