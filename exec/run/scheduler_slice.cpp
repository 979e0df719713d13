#include "exec/run/scheduler_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace pipesim::exec {
namespace {

// The argument of sched_getattr(2) and sched_setattr(2), in its first version: older C libraries do
// not declare them.
struct ThreadSchedule {
  std::uint32_t size = 0;
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t turn_ns = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(ThreadSchedule) == 48);

constexpr std::uint64_t shortest_turn_ns = 100'000;  // supported by Linux
constexpr std::uint64_t usual_turn = 0;

bool ask_for_turns(std::uint64_t turn_ns) {
  ThreadSchedule schedule;
  if (::syscall(SYS_sched_getattr, 0, &schedule, sizeof schedule, 0) != 0) return false;
  if (schedule.policy != SCHED_OTHER) return false;
  schedule.size = sizeof schedule;
  schedule.turn_ns = turn_ns;
  return ::syscall(SYS_sched_setattr, 0, &schedule, 0) == 0;
}

}  // namespace

ShortTurns::ShortTurns() : are_given_(ask_for_turns(shortest_turn_ns)) {}

ShortTurns::~ShortTurns() {
  if (are_given_) ask_for_turns(usual_turn);
}

}  // namespace pipesim::exec
