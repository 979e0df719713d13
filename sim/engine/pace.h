// The pace of a rank's compute: slower while transfers overlap it.
//
// Work is counted in units: full speed does 1e6 + slowdown per
// nanosecond, slowed compute 1e6. These are whole numbers, so nothing is rounded
// until the end, the first whole nanosecond at which all is done.
// Plain values; one thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "traces/event/event_plan.h"

namespace pipesim {

class Pace {
 public:
  explicit Pace(std::int64_t slowdown_ppm) : slowdown_ppm_(slowdown_ppm) {}

  // `duration_ns`: at full speed. Ends are told apart by the version.
  void start(TaskId task, std::int64_t duration_ns, std::int64_t now_ns) {
    task_ = task;
    left_ = static_cast<Units>(duration_ns) * full_speed();
    since_ns_ = now_ns;
    running_ = true;
    ++version_;
  }
  void finish() { running_ = false; }

  // A transfer begins (1) or ends (-1). Returns whether the running work's end has moved.
  bool change(int transfers, std::int64_t now_ns) {
    const bool was_slow = transfers_ > 0;
    if (running_) left_ -= static_cast<Units>(now_ns - since_ns_) * speed();
    since_ns_ = now_ns;
    transfers_ += transfers;
    // Nothing is left of what ends at this very instant.
    if (!running_ || left_ <= 0 || was_slow == (transfers_ > 0)) return false;
    ++version_;
    return true;
  }

  // At least this much of the running work, at full speed, is left.
  void hold_back(std::int64_t duration_ns, std::int64_t now_ns) {
    left_ -= static_cast<Units>(now_ns - since_ns_) * speed();
    since_ns_ = now_ns;
    left_ = std::max(left_, static_cast<Units>(duration_ns) * full_speed());
    ++version_;
  }

  TaskId task() const { return task_; }
  std::uint32_t version() const { return version_; }
  std::int64_t end_ns() const {
    return since_ns_ + static_cast<std::int64_t>((left_ + speed() - 1) / speed());
  }

 private:
  __extension__ using Units = __int128;

  std::int64_t full_speed() const { return 1'000'000 + slowdown_ppm_; }
  std::int64_t speed() const { return transfers_ > 0 ? 1'000'000 : full_speed(); }

  std::int64_t slowdown_ppm_;
  int transfers_ = 0;  // under way
  TaskId task_ = 0;
  bool running_ = false;
  std::uint32_t version_ = 0;
  Units left_ = 0;
  std::int64_t since_ns_ = 0;
};

}  // namespace pipesim
