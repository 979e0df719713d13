// The GPU's memory, in blocks that are kept when released.
//
// A released block is reused for about the same size. All work on blocks is
// on one stream, in the order of the calls, so that one may be handed out again while its last user
// has still to run. Allocating on the GPU costs time, and freeing stops the GPU: they happen in the
// first iteration, and at the end.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "exec/device/gpu/gpu.h"

namespace pipesim::exec {

class GpuMemory {
 public:
  // The user's stream; must outlive this.
  explicit GpuMemory(gpuStream_t stream) : stream_(stream) {}
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  // Frees everything, released or not; nothing may be running any more.
  ~GpuMemory();

  // Aligned to 256 bytes; throws a work error if there is none left, even after freeing all unused
  // blocks.
  void* allocate(std::int64_t bytes);
  // Null does nothing.
  void release(void* memory);
  // Frees nothing from now on until the end: that would stop the GPU while messages of a link wait
  // for its pending work.
  void keep_all() { keeps_all_ = true; }
  // The most at once, including unused blocks.
  std::int64_t most_taken_bytes() const { return most_taken_bytes_; }

 private:
  void hand_back_free_blocks();

  gpuStream_t stream_;
  bool keeps_all_ = false;
  std::int64_t taken_bytes_ = 0;
  std::int64_t most_taken_bytes_ = 0;
  std::multimap<std::int64_t, void*> free_;       // by size
  std::unordered_map<void*, std::int64_t> size_;  // of all blocks
};

}  // namespace pipesim::exec
