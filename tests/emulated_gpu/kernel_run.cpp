#include "tests/emulated_gpu/kernel_run.h"

#include <algorithm>
#include <numeric>

uint3 threadIdx{};
uint3 blockIdx{};
dim3 blockDim;
dim3 gridDim;

namespace emulated_gpu {
namespace {

std::string block_name() {
  return "block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
         std::to_string(blockIdx.z) + ")";
}

// A number that visits all of `count` in turn, as a step.
unsigned stride_for(std::uint64_t random, unsigned count) {
  auto stride = static_cast<unsigned>(random % count);
  while (std::gcd(stride, count) != 1) stride = (stride + 1) % count;
  return stride;
}

}  // namespace

// What every fiber runs: threads that have not begun, then nothing until the
// next block.
void KernelRuns::run_threads() {
  for (;;) {
    while (begun_ < threads_) {
      const std::uint64_t place = first_ + std::uint64_t{begun_} * stride_;
      ++begun_;
      threadIdx = {static_cast<unsigned>(place % threads_), 0, 0};
      kernel_->thread();
    }
    at_barrier_ = false;
    running_->leave();
  }
}

void KernelRuns::wait_at_barrier() {
  at_barrier_ = true;
  running_->leave();
}

Fiber& KernelRuns::idle_fiber() {
  if (fibers_.size() == waiting_.size()) {
    fibers_.push_back(std::make_unique<Fiber>([this] { run_threads(); }, fibers_.size()));
  }
  return *fibers_[waiting_.size()];
}

// False where threads met different numbers of barriers.
bool KernelRuns::run_block(const Kernel& kernel, std::uint64_t order) {
  threads_ = static_cast<unsigned>(kernel.shape.threads);
  first_ = static_cast<unsigned>(order % threads_);
  stride_ = stride_for(order >> 16, threads_);
  begun_ = 0;
  waiting_.clear();
  while (begun_ < threads_) {
    running_ = &idle_fiber();
    running_->resume();
    if (at_barrier_) waiting_.push_back({threadIdx.x, running_});
  }
  for (int round = 1; !waiting_.empty(); ++round) {
    if (waiting_.size() != threads_) return false;
    // Another order: turned by one more each time, and now and then backwards.
    std::rotate(waiting_.begin(), waiting_.begin() + first_ % threads_, waiting_.end());
    if (((order >> (32 + round % 32)) & 1) != 0) std::reverse(waiting_.begin(), waiting_.end());
    std::size_t still = 0;
    for (const Waiting waiting : waiting_) {
      threadIdx = {waiting.thread, 0, 0};
      running_ = waiting.fiber;
      running_->resume();
      if (at_barrier_) waiting_[still++] = waiting;
    }
    waiting_.resize(still);
  }
  return true;
}

std::string KernelRuns::run(const Kernel& kernel, const std::function<std::uint64_t()>& random) {
  const dim3 blocks = kernel.shape.blocks;
  Extent& extent = extents_[kernel.address];
  SharedMemory shared(kernel.address, extent, kernel.shape.shared_bytes);
  kernel_ = &kernel;
  dynamic_ = shared.dynamic();
  gridDim = blocks;
  blockDim = dim3(static_cast<unsigned>(kernel.shape.threads));
  const std::uint64_t count = std::uint64_t{blocks.x} * blocks.y * blocks.z;
  const bool backwards = (random() & 1) != 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = backwards ? count - 1 - i : i;
    blockIdx = {static_cast<unsigned>(at % blocks.x),
                static_cast<unsigned>(at / blocks.x % blocks.y),
                static_cast<unsigned>(at / blocks.x / blocks.y)};
    shared.poison();
    if (!run_block(kernel, random())) {
      const std::string met = std::to_string(waiting_.size());
      fibers_.clear();  // they are in the middle of threads
      return "the kernel of " + kernel.name + ": in " + block_name() + " " + met + " of " +
             std::to_string(threads_) + " threads wait at a barrier that the others don't meet";
    }
    if (i > 0) continue;
    const std::size_t used = shared.look();
    extent = shared.extent();
    if (used > kernel.max_shared_bytes) {
      return "the kernel of " + kernel.name + " uses " + std::to_string(used) +
             " bytes of shared memory; there are " + std::to_string(kernel.max_shared_bytes);
    }
  }
  return "";
}

}  // namespace emulated_gpu
