// Runs a kernel: its blocks one after another, forwards or backwards, and a
// block's threads as fibers.
//
// From barrier to barrier the threads of a block run in an order of their own,
// so that a missing barrier gives wrong values. A thread gets a fiber of its own
// only once it waits at a barrier. One kernel runs at a time.
#pragma once

#include <emulated_gpu.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulated_gpu/fiber.h"
#include "tests/emulated_gpu/shared_memory.h"

namespace emulated_gpu {

struct Kernel {
  std::string name;
  Shape shape;
  const void* address;
  std::size_t max_shared_bytes;
  std::function<void()> thread;
};

class KernelRuns {
 public:
  // What was wrong, or an empty text. `random` gives the orders.
  std::string run(const Kernel& kernel, const std::function<std::uint64_t()>& random);
  // Of the running kernel's thread.
  void wait_at_barrier();
  void* dynamic_shared() const { return dynamic_; }

 private:
  bool run_block(const Kernel& kernel, std::uint64_t order);
  void run_threads();
  Fiber& idle_fiber();

  struct Waiting {
    unsigned thread;
    Fiber* fiber;
  };

  std::map<const void*, Extent> extents_;  // by kernel
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Waiting> waiting_;  // at a barrier
  const Kernel* kernel_ = nullptr;
  void* dynamic_ = nullptr;
  Fiber* running_ = nullptr;
  bool at_barrier_ = false;  // whether it left there
  unsigned threads_ = 0;
  unsigned begun_ = 0;
  unsigned first_ = 0;  // the order of beginning
  unsigned stride_ = 1;
};

}  // namespace emulated_gpu
