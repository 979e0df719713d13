// The state of the emulated GPUs of a process, under one lock, and what all
// functions of the runtime have in common.
#pragma once

#include <emulated_gpu.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/emulated_gpu/kernel_run.h"
#include "tests/emulated_gpu/memory.h"
#include "tests/emulated_gpu/streams.h"

namespace emulated_gpu {

// What a function of the runtime returns instead of success; none lets it out.
struct Failure {
  gpuError_t error;
  std::string text;
};

struct Runtime {
  explicit Runtime(const Options& of);

  // The GPU whose memory has that address, or none.
  std::optional<int> gpu_of(const void* address) const;
  // Whether one allocation of a GPU holds the range.
  bool holds(const void* from, std::size_t bytes) const;
  bool has(const Event* event) const;

  Options options;
  std::vector<std::unique_ptr<DeviceMemory>> memory;  // of each GPU
  PinnedMemory pinned;
  Streams streams;
  std::vector<std::unique_ptr<Event>> events;
  KernelRuns kernels;
  std::map<const void*, std::size_t> allowed;  // bytes of shared memory, of kernels
  std::string broken;  // why all functions fail, once something went wrong that can't be undone
};

// Of the calling thread.
struct HostThread {
  std::uint64_t start = 0;  // the one that it belongs to
  int gpu = 0;              // the current one
  Streams::Random random;
  gpuError_t last = gpuSuccess;
  Failure latest{gpuSuccess, ""};  // for the text
};

struct Process {
  std::mutex lock;
  std::unique_ptr<Runtime> runtime;  // made when first needed
  std::uint64_t start = 1;           // counts them
  std::set<std::string> texts;       // that were handed out
};
Process& process();
// Under the lock.
HostThread& host_thread();

// Runs `body` under the lock; its Failure is the result.
template <typename Body>
gpuError_t call(Body body) {
  Process& all = process();
  const std::lock_guard lock(all.lock);
  HostThread& thread = host_thread();
  try {
    if (!all.runtime->broken.empty()) throw Failure{gpuErrorLaunchFailure, all.runtime->broken};
    body(*all.runtime, thread);
    return gpuSuccess;
  } catch (const Failure& failure) {
    if (failure.error != gpuErrorNotReady) thread.last = failure.error;
    thread.latest = failure;
    return failure.error;
  }
}

inline void require(bool holds, gpuError_t error, const char* text) {
  if (!holds) throw Failure{error, text};
}

// The GPUs' memory is open while operations run.
class OpenMemory {
 public:
  explicit OpenMemory(Runtime& runtime) : runtime_(runtime) {
    for (const auto& memory : runtime_.memory) memory->open();
  }
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
  ~OpenMemory() {
    for (const auto& memory : runtime_.memory) memory->close();
  }

 private:
  Runtime& runtime_;
};

}  // namespace emulated_gpu
