// The shared memory of a block: what kernels call __shared__, and what a launch
// asks for beyond that.
//
// __shared__ makes a variable of the thread that runs the block, so that a
// library's thread-local storage is the shared memory of all its kernels, and
// nothing else may be in it.
#pragma once

#include <cstddef>
#include <vector>

namespace emulated_gpu {

inline constexpr std::size_t most_shared_bytes = std::size_t{48} << 10;

class SharedMemory {
 public:
  // For the kernel at that address and the calling thread.
  SharedMemory(const void* kernel, std::size_t dynamic_bytes);

  void* dynamic() { return dynamic_; }
  void poison();
  // Bytes that are no longer as poison() left them, and all of the dynamic.
  std::size_t used() const;

 private:
  char* fixed_ = nullptr;
  std::size_t fixed_bytes_ = 0;
  std::vector<char> room_;
  char* dynamic_;
  std::size_t dynamic_bytes_;
};

}  // namespace emulated_gpu
