#include "tests/emulated_gpu/runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace emulated_gpu {
namespace {

std::uint64_t number_of_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') {
    std::fprintf(stderr, "emulated GPU: %s is not a number: %s\n", name, text);
    std::abort();
  }
  return number;
}

Options options_of_environment() {
  Options options;
  options.seed = number_of_environment("PIPESIM_EMULATED_GPU_SEED", 1);
  options.gpus = static_cast<int>(number_of_environment("PIPESIM_EMULATED_GPUS", 1));
  options.memory = number_of_environment("PIPESIM_EMULATED_GPU_MIB", 1024) << 20;
  return options;
}

}  // namespace

Runtime::Runtime(const Options& of) : options(of), streams(of.seed % 2 != 0) {
  for (int gpu = 0; gpu < options.gpus; ++gpu) {
    memory.push_back(std::make_unique<DeviceMemory>(options.memory));
  }
}

std::optional<int> Runtime::gpu_of(const void* address) const {
  for (int gpu = 0; gpu < options.gpus; ++gpu) {
    if (memory[static_cast<std::size_t>(gpu)]->has(address)) return gpu;
  }
  return {};
}

bool Runtime::holds(const void* from, std::size_t bytes) const {
  return std::ranges::any_of(memory, [&](const auto& one) { return one->holds(from, bytes); });
}

bool Runtime::has(const Event* event) const {
  return std::ranges::any_of(events, [&](const auto& one) { return one.get() == event; });
}

// Never taken down: whoever uses it may be taken down later.
Process& process() {
  static Process& one = *new Process;
  return one;
}

HostThread& host_thread() {
  thread_local HostThread thread;
  Process& all = process();
  if (all.runtime == nullptr) all.runtime = std::make_unique<Runtime>(options_of_environment());
  if (thread.start != all.start) {
    thread = HostThread{};
    thread.start = all.start;
    thread.random.seed(all.runtime->options.seed);
  }
  return thread;
}

void restart(const Options& options) {
  Process& all = process();
  const std::lock_guard lock(all.lock);
  all.runtime = std::make_unique<Runtime>(options);
  ++all.start;
}

void barrier() { process().runtime->kernels.wait_at_barrier(); }
void* dynamic_shared() { return process().runtime->kernels.dynamic_shared(); }

}  // namespace emulated_gpu
