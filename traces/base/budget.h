// The time that work may take, of which what is best so far is the answer.
//
// Work looks at it every so often, several times in 50 ms, and once it is over comes to an end.
// What is over stays over. Shared by all who work: any thread may look.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "traces/base/error.h"

namespace pipesim {

class Budget {
 public:
  // From now on.
  explicit Budget(std::chrono::nanoseconds time) : Budget(after(time), after(time / 2)) {}
  // Until `ends`, asked at every look by any thread, says so; half of it is over when `halves`
  // does.
  explicit Budget(
      std::function<bool()> ends, std::function<bool()> halves = [] { return false; })
      : ends_(std::move(ends)), halves_(std::move(halves)) {}

  bool is_over() const {
    if (!over_.load(std::memory_order_relaxed) && ends_()) over_ = true;
    return over_;
  }
  // When to begin with what gives an answer, if what prepares better ones takes longer.
  bool is_half_over() const { return is_over() || halves_(); }
  // Throws where it is over.
  void check() const {
    if (is_over()) throw work_error("--budget: time ran out before there was an answer; give more");
  }

 private:
  using Clock = std::chrono::steady_clock;

  static std::function<bool()> after(std::chrono::nanoseconds time) {
    return [time, start = Clock::now()] { return Clock::now() - start >= time; };
  }

  std::function<bool()> ends_;
  std::function<bool()> halves_;
  mutable std::atomic<bool> over_ = false;
};

}  // namespace pipesim
