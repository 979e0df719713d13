// A function that can be left in its middle and taken up again, on a stack of
// its own.
//
// Whoever resumes it owns it. One thread resumes it at a time; it may be another
// one the next time if the function keeps no thread's addresses.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <functional>

namespace emulated_gpu {

class Fiber {
 public:
  // `body` never returns: it calls leave(), for good in the end.
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // Runs the body, from its beginning or from where it left, until it leaves.
  void resume();
  // From within the body.
  void leave();

 private:
  static void enter(unsigned low, unsigned high);

  std::function<void()> body_;
  char* stack_;
  bool started_ = false;
  std::jmp_buf inside_;
  std::jmp_buf outside_;
};

}  // namespace emulated_gpu
