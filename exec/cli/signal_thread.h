// The thread that handlers of signals run on.
//
// A handler must not run on the stack of a thread that computes: oneDNN's generated products keep
// data below the stack pointer, farther than the 128 bytes that a handler leaves alone.
//
// While an object exists, the thread that made it and all threads started meanwhile, by libraries
// too, block the signals that have handlers. Make it before any other thread. One object at a time.
#pragma once

#include <csignal>
#include <thread>

namespace pipesim::exec {

class SignalThread {
 public:
  // Throws a work error if the thread can't be started.
  SignalThread();
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  sigset_t before_{};  // what its maker blocked
  int over_ = -1;      // an event
  std::thread thread_;
};

}  // namespace pipesim::exec
