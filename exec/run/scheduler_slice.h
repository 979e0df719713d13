// Short time slices for threads that work briefly while others wait for them, so that they run
// before those that compute. The scheduler gives a thread a slice of some milliseconds, and lets
// another preempt it only if that one has asked for shorter slices. Linux supports that since 6.12;
// before, this has no effect. Priorities and shares of time are unchanged.
#pragma once

namespace pipesim::exec {

// Applies to the constructing thread until destruction, on the same thread. No effect if the
// thread's priority is real-time, or the system refuses.
class ShortTurns {
 public:
  ShortTurns();
  ~ShortTurns();
  ShortTurns(const ShortTurns&) = delete;
  ShortTurns& operator=(const ShortTurns&) = delete;

 private:
  bool are_given_;
};

}  // namespace pipesim::exec
