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
#ifdef __x86_64__
  using Place = void* [5];
#else
  using Place = std::jmp_buf;
#endif

  // `body` never returns: it calls leave(), for good in the end, and never while it
  // handles an exception. What is on its stack then is not destroyed.
  // Fibers used together have different numbers.
  Fiber(std::function<void()> body, std::size_t number);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // Runs the body, from its beginning or from where it left, until it leaves.
  void resume();
  // From within the body.
  void leave();

 private:
  static void enter(unsigned low, unsigned high);
  void end();

  std::function<void()> body_;
  std::size_t colour_;
  char* stack_;
  bool started_ = false;
  Place inside_;
  Place outside_;
  // For the address sanitizer: what it keeps of a stack while the other one is in
  // use, and where the one is from which resume() was last called.
  void* inside_kept_ = nullptr;
  void* outside_kept_ = nullptr;
  const void* outside_stack_ = nullptr;
  std::size_t outside_bytes_ = 0;
  bool ends_ = false;
};

}  // namespace emulated_gpu
