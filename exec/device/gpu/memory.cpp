#include "exec/device/gpu/memory.h"

#include <algorithm>
#include <string>

#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

// Small blocks in steps of 512 bytes, large ones of 1 MiB.
std::int64_t rounded(std::int64_t bytes) {
  const std::int64_t step = bytes < (std::int64_t{1} << 20) ? 512 : std::int64_t{1} << 20;
  return (bytes / step + 1) * step;
}

constexpr std::int64_t most_bytes = std::int64_t{1} << 50;

// " on the GPU, which has 80 MiB free of 1024 MiB", for the selected one; empty if unknown.
std::string what_is_free() {
  std::size_t free = 0;
  std::size_t all = 0;
  if (gpuMemGetInfo(&free, &all) != gpuSuccess) return {};
  constexpr std::size_t mib = std::size_t{1} << 20;
  return " on the GPU, which has " + std::to_string(free / mib) + " MiB free of " +
         std::to_string(all / mib) + " MiB";
}

}  // namespace

GpuMemory::~GpuMemory() {
  for (const auto& [memory, bytes] : size_) static_cast<void>(gpuFree(memory));
}

void* GpuMemory::allocate(std::int64_t bytes) {
  const std::int64_t size = bytes >= 0 && bytes <= most_bytes ? rounded(bytes) : most_bytes;
  // A block that would leave more than an eighth unused is not reused for this.
  const auto found = free_.lower_bound(size);
  if (found != free_.end() && found->first <= size + size / 8) {
    void* memory = found->second;
    free_.erase(found);
    return memory;
  }
  void* memory = nullptr;
  gpuError_t result = gpuMalloc(&memory, static_cast<std::size_t>(size));
  if (result == gpuErrorMemoryAllocation) {
    static_cast<void>(gpuGetLastError());  // cleared, or the next kernel would report it
    if (!keeps_all_) {
      hand_back_free_blocks();
      result = gpuMalloc(&memory, static_cast<std::size_t>(size));
    }
  }
  if (result == gpuErrorMemoryAllocation) {
    static_cast<void>(gpuGetLastError());
    throw work_error(std::string(gpu_runtime) + ": no memory left for " + std::to_string(bytes) +
                     " bytes" + what_is_free() +
                     "; take a smaller model, smaller microbatches or fewer ranks per GPU");
  }
  check(result, "allocate memory");
  size_.emplace(memory, size);
  taken_bytes_ += size;
  most_taken_bytes_ = std::max(most_taken_bytes_, taken_bytes_);
  return memory;
}

void GpuMemory::release(void* memory) {
  if (memory != nullptr) free_.emplace(size_.at(memory), memory);
}

void GpuMemory::hand_back_free_blocks() {
  check(gpuStreamSynchronize(stream_), "run what was asked for");
  for (const auto& [bytes, memory] : free_) {
    check(gpuFree(memory), "hand back memory");
    size_.erase(memory);
    taken_bytes_ -= bytes;
  }
  free_.clear();
}

}  // namespace pipesim::exec
