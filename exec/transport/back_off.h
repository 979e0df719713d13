// The pauses of a polling wait: yields at first, then sleeps for a share of the time waited so far,
// from 5 to 50 us, so that more waiting ranks than processors don't starve those that work.
//
// One for each wait, on its thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace pipesim::exec {

class BackOff {
 public:
  void pause() {
    if (const std::chrono::nanoseconds sleep = next(); sleep > sleep.zero()) {
      std::this_thread::sleep_for(sleep);
    } else {
      std::this_thread::yield();
    }
  }
  // How long to sleep in the next pause; 0: yield.
  std::chrono::nanoseconds next() {
    using std::chrono::microseconds;
    if (++turns_ < 20) return microseconds(0);
    const auto waited = std::chrono::steady_clock::now() - since_;
    return std::clamp<std::chrono::nanoseconds>(waited / 64, microseconds(5), microseconds(50));
  }

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  int turns_ = 0;
};

}  // namespace pipesim::exec
