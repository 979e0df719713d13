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
  explicit Budget(std::chrono::nanoseconds time)
      : Budget([time, start = Clock::now()] { return Clock::now() - start >= time; }) {}
  // Until `ends`, asked at every look by any thread, says so.
  explicit Budget(std::function<bool()> ends) : ends_(std::move(ends)) {}

  bool is_over() const {
    if (!over_.load(std::memory_order_relaxed) && ends_()) over_ = true;
    return over_;
  }
  // Throws where it is over.
  void check() const {
    if (is_over()) throw work_error("--budget: time ran out before there was an answer; give more");
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::function<bool()> ends_;
  mutable std::atomic<bool> over_ = false;
};

}  // namespace pipesim
