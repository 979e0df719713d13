#include "exec/run/processor.h"

#include <sched.h>

#include <ctime>

#include "exec/run/clock.h"
#include "exec/transport/collectives.h"

namespace pipesim::exec {
namespace {

constexpr std::int64_t min_taken_ns = 5'000;

// This thread's CPU time. The system call may block the thread at its end: so the other clock is
// read after it at the start, and before it at the end.
std::int64_t ran_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

int count_processors(Transport& transport) {
  cpu_set_t own;
  CPU_ZERO(&own);
  ::sched_getaffinity(0, sizeof own, &own);  // of the calling thread
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const cpu_set_t& theirs : gather_value(transport, own)) CPU_OR(&all, &all, &theirs);
  return CPU_COUNT(&all);
}

ProcessorWatch::ProcessorWatch(bool counts, const std::int64_t& waited_ns)
    : counts_(counts), waited_ns_(&waited_ns), waited_before_ns_(waited_ns) {
  if (!counts) return;
  ran_ns_ = ran_ns();
  since_ns_ = Clock::monotonic_ns();
}

std::int64_t ProcessorWatch::preempted_ns() const {
  if (!counts_) return 0;
  const std::int64_t now_ns = Clock::monotonic_ns();
  const std::int64_t waited = *waited_ns_ - waited_before_ns_;
  const std::int64_t taken = now_ns - since_ns_ - (ran_ns() - ran_ns_) - waited;
  return taken < min_taken_ns ? 0 : taken;
}

}  // namespace pipesim::exec
