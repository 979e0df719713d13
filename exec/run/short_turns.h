// Threads that work for moments, while others wait for them, go before those that compute.
//
// The system gives a thread a turn of some milliseconds, and lets another in before it is over
// only where that one has asked for shorter turns. Linux knows that since 6.12; before, nothing
// changes. Priorities and shares of time stay as they are.
#pragma once

namespace pipesim::exec {

// Turns of the thread that makes it, until it goes, on the same thread. Nothing where the thread's
// priority is real-time, or the system refuses.
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
