// Short turns are asked of the system for a time, and leave all else about a thread as it was.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>

#include "exec/run/scheduler_slice.h"

namespace pipesim {
namespace {

// As sched_getattr(2) says, of this thread. Its turns are 0 where Linux is older than 6.12.
struct ThreadSchedule {
  std::uint32_t policy = 0;
  std::int32_t nice = 0;
  std::uint64_t turn_ns = 0;

  bool operator==(const ThreadSchedule&) const = default;
};

ThreadSchedule schedule() {
  std::array<std::uint32_t, 12> words{};
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, words.data(), sizeof words, 0), 0);
  return {words[1], static_cast<std::int32_t>(words[4]), words[6] | std::uint64_t{words[7]} << 32};
}

TEST(ShortTurns, AreThoseOfAThreadForATime) {
  std::thread([] {
    ASSERT_EQ(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 7), 0);
    const ThreadSchedule before = schedule();
    EXPECT_EQ(before.nice, 7);
    {
      const exec::ShortTurns turns;
      const ThreadSchedule within = schedule();
      EXPECT_EQ(within.policy, before.policy);
      EXPECT_EQ(within.nice, before.nice);
      EXPECT_EQ(within.turn_ns, before.turn_ns > 0 ? 100'000U : 0);
    }
    EXPECT_EQ(schedule(), before);
  }).join();
}

TEST(ShortTurns, LeaveOtherPoliciesAlone) {
  std::thread([] {
    const sched_param none{};
    ASSERT_EQ(::sched_setscheduler(0, SCHED_IDLE, &none), 0);
    const ThreadSchedule before = schedule();
    const exec::ShortTurns turns;
    EXPECT_EQ(schedule(), before);
  }).join();
}

}  // namespace
}  // namespace pipesim
