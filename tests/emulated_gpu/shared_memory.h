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

inline constexpr std::size_t max_shared_bytes = std::size_t{48} << 10;
// In all, of a kernel that gpuFuncSetAttribute() has allowed more.
inline constexpr std::size_t max_allowed_bytes = std::size_t{227} << 10;

// Where a kernel's variables are among those of all, as far as it is known.
struct Extent {
  std::size_t begin = 0;
  std::size_t end = static_cast<std::size_t>(-1);
};

class SharedMemory {
 public:
  // For the kernel at that address and the calling thread. What lies outside of
  // `extent` is left alone.
  SharedMemory(const void* kernel, const Extent& extent, std::size_t dynamic_bytes);

  void* dynamic() { return dynamic_; }
  // All of the extent, or what look() found of it.
  void poison();
  // The bytes that are no longer as poison() left them, and all of the dynamic.
  std::size_t look();
  // What look() found, and room on both sides, for the next time.
  Extent extent() const;

 private:
  char* fixed_ = nullptr;
  std::size_t fixed_bytes_ = 0;
  Extent extent_;
  bool has_looked_ = false;
  std::vector<std::size_t> touched_;  // where, in pieces
  std::vector<char> room_;
  char* dynamic_;
  std::size_t dynamic_bytes_;
};

}  // namespace emulated_gpu
