// The emulated GPU's threads: functions that are left in their middle, and what the
// address sanitizer knows of their stacks.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/emulated_gpu/address_sanitizer.h"
#include "tests/emulated_gpu/fiber.h"

#ifdef PIPESIM_ADDRESS_SANITIZER
// Fake stacks for frames, which fibers must have of their own, too.
extern "C" const char* __asan_default_options() { return "detect_stack_use_after_return=1"; }
#endif

namespace pipesim::testing {
namespace {

using emulated_gpu::Fiber;

// Of a function of the fiber that it is given; see Fiber.
std::unique_ptr<Fiber> new_fiber(std::function<void(Fiber&)> body, std::size_t number = 0) {
  auto fiber = std::make_shared<Fiber*>(nullptr);
  auto made = std::make_unique<Fiber>([fiber, body] { body(**fiber); }, number);
  *fiber = made.get();
  return made;
}

TEST(EmulatedFiber, RunByTurnsOnWhateverThreadResumesThem) {
  std::vector<int> steps;
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (int i = 0; i < 3; ++i) {
    fibers.push_back(new_fiber(
        [i, &steps](Fiber& fiber) {
          for (int step = 0;; ++step) {
            steps.push_back(10 * step + i);
            fiber.leave();
          }
        },
        static_cast<std::size_t>(i)));
  }
  for (int round = 0; round < 2; ++round) {
    for (const auto& fiber : fibers) fiber->resume();
  }
  std::thread([&] {
    for (const auto& fiber : fibers) fiber->resume();
  }).join();
  EXPECT_EQ(steps, (std::vector<int>{0, 1, 2, 10, 11, 12, 20, 21, 22}));
}

[[noreturn]] __attribute__((noinline)) void fail_deep(int calls) {
  volatile char room[100] = {};
  if (calls > 0) fail_deep(calls - 1 + room[static_cast<std::size_t>(calls) % 100]);
  throw std::runtime_error("deep");
}

// The address sanitizer reports what is forbidden of that stack.
PIPESIM_UNWATCHED __attribute__((noinline)) void touch_stack() {
  char room[16384];
  std::memset(room, 1, sizeof room);
  volatile char seen = room[sizeof room / 2];
  static_cast<void>(seen);
}

TEST(EmulatedFiber, CatchWhatIsThrownOnThem) {
  int caught = 0;
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (std::size_t i = 0; i < 20; ++i) {
    fibers.push_back(new_fiber(
        [&](Fiber& fiber) {
          for (;;) {
            try {
              fail_deep(50);
            } catch (const std::runtime_error&) {
              ++caught;
            }
            touch_stack();
            fiber.leave();
          }
        },
        i));
  }
  for (int round = 0; round < 10; ++round) {
    for (const auto& fiber : fibers) fiber->resume();
    EXPECT_THROW(fail_deep(50), std::runtime_error);
    touch_stack();
  }
  EXPECT_EQ(caught, 200);
}

__attribute__((noinline)) void leave_deep(Fiber& fiber, int calls) {
  volatile char room[100] = {};
  if (calls > 0) leave_deep(fiber, calls - 1 + room[0]);
  room[static_cast<std::size_t>(calls) % 100] = 1;
  fiber.leave();
}

// The next one's stack may lie where its was.
TEST(EmulatedFiber, MayGoInTheMiddle) {
  for (int again = 0; again < 100; ++again) {
    std::vector<std::unique_ptr<Fiber>> fibers;
    for (int i = 0; i < 5; ++i) {
      fibers.push_back(new_fiber(
          [again, i](Fiber& fiber) {
            touch_stack();
            for (;;) leave_deep(fiber, (17 * again + 5 * i) % 50);
          },
          static_cast<std::size_t>(i)));
    }
    for (std::size_t i = 1; i < fibers.size(); ++i) {  // and one that never began
      for (std::size_t times = 0; times < i; ++times) fibers[i]->resume();
    }
  }
}

#ifdef PIPESIM_ADDRESS_SANITIZER
// By a pointer, which the undefined-behaviour sanitizer doesn't follow.
int number_at(volatile const int* room, std::size_t at) { return room[at]; }

// What the sanitizer knows of a frame lasts while another stack is in use.
TEST(EmulatedFiberDeath, FramesAreWatchedAfterChangesOfStacks) {
  const auto read_on_fiber = [](std::size_t at) {
    int got = -1;
    const auto fiber = new_fiber([&](Fiber& own) {
      volatile int room[16] = {};
      own.leave();
      got = number_at(room, at);
      own.leave();
    });
    fiber->resume();
    fiber->resume();
    return got;
  };
  const auto read_outside = [](std::size_t at) {
    volatile int room[16] = {};
    const auto fiber = new_fiber([](Fiber& own) {
      for (;;) own.leave();
    });
    fiber->resume();
    fiber->resume();
    return number_at(room, at);
  };
  EXPECT_EQ(read_on_fiber(15), 0);
  EXPECT_EQ(read_outside(15), 0);
  EXPECT_DEATH(read_on_fiber(16), "stack-buffer-overflow");
  EXPECT_DEATH(read_outside(16), "stack-buffer-overflow");
}
#endif

}  // namespace
}  // namespace pipesim::testing
