#include "exec/run/precise_sleep.h"

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "exec/run/clock.h"

namespace pipesim::exec {

void PreciseSleep::until(std::int64_t monotonic_ns) {
  if (Clock::monotonic_ns() >= monotonic_ns) return;
  const std::int64_t wake = wake_ns(monotonic_ns);
  const timespec until{static_cast<std::time_t>(wake / 1'000'000'000),
                       static_cast<long>(wake % 1'000'000'000)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
  learn(wake);
  while (Clock::monotonic_ns() < monotonic_ns) {
  }
}

void PreciseSleep::learn(std::int64_t wake_ns) {
  constexpr std::int64_t max_ns = 60'000;
  const std::int64_t late_ns = std::clamp<std::int64_t>(Clock::monotonic_ns() - wake_ns, 0, max_ns);
  // Rises quickly and falls slowly: most sleeps end no later than that.
  usually_late_ns_ += (late_ns - usually_late_ns_) / (late_ns > usually_late_ns_ ? 4 : 16);
}

}  // namespace pipesim::exec
