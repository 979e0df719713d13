// The functions of the runtime: they check what is asked for and put it on
// streams.
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

#include "tests/emulated_gpu/runtime.h"
#include "tests/emulated_gpu/shared_memory.h"

namespace emulated_gpu {
namespace {

constexpr unsigned max_columns = 2147483647;  // of a grid
constexpr unsigned max_rows = 65535;          // and planes
constexpr int max_threads = 1024;             // of a block

void require_stream(const Runtime& runtime, const Stream* stream) {
  require(stream != nullptr, gpuErrorInvalidResourceHandle,
          "the emulated GPU has no default stream");
  require(runtime.streams.has(stream), gpuErrorInvalidResourceHandle, "there is no such stream");
}

void require_event(const Runtime& runtime, const Event* event) {
  require(runtime.has(event), gpuErrorInvalidResourceHandle, "there is no such event");
}

void require_gpu(const Runtime& runtime, int gpu) {
  require(runtime.options.gpus > 0, gpuErrorNoDevice, "there is no emulated GPU");
  require(gpu >= 0 && gpu < runtime.options.gpus, gpuErrorInvalidDevice,
          "there is no such emulated GPU");
}

DeviceMemory& current_memory(Runtime& runtime, const HostThread& thread) {
  require_gpu(runtime, thread.gpu);
  return *runtime.memory[static_cast<std::size_t>(thread.gpu)];
}

std::int64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

void push(Runtime& runtime, HostThread& thread, Stream* stream, Operation operation) {
  runtime.streams.push(*stream, std::move(operation));
  if (!runtime.streams.is_due(*stream, thread.random)) return;
  const OpenMemory open(runtime);
  runtime.streams.run_some(*stream, thread.random);
}

void run_all(Runtime& runtime, HostThread& thread, Stream* stream) {
  if (stream->operations.empty()) return;
  const OpenMemory open(runtime);
  runtime.streams.run_all(*stream, thread.random);
}

void run_kernel(Runtime& runtime, const Kernel& kernel, std::uint64_t seed) {
  Streams::Random random(seed);
  std::string wrong = runtime.kernels.run(kernel, [&] { return random(); });
  for (const auto& memory : runtime.memory) {
    if (wrong.empty() && memory->was_written_beside()) {
      wrong = "the kernel of " + kernel.name + " wrote beside an allocation";
    }
  }
  if (wrong.empty()) return;
  runtime.broken = wrong;
  throw Failure{gpuErrorLaunchFailure, wrong};
}

}  // namespace

void launch_thunk(gpuStream_t stream, const char* name, const Shape& shape, const void* kernel,
                  std::function<void()> thread) {
  static_cast<void>(call([&](Runtime& runtime, HostThread& host) {
    require_stream(runtime, stream);
    require(host.gpu == stream->gpu, gpuErrorInvalidResourceHandle,
            "the stream belongs to another GPU than the current one");
    const dim3& blocks = shape.blocks;
    require(blocks.x >= 1 && blocks.x <= max_columns && blocks.y >= 1 && blocks.y <= max_rows &&
                blocks.z >= 1 && blocks.z <= max_rows,
            gpuErrorInvalidConfiguration, "a grid has 1 to 2147483647 x 65535 x 65535 blocks");
    require(shape.threads >= 1 && shape.threads <= max_threads, gpuErrorInvalidConfiguration,
            "a block has 1 to 1024 threads");
    const auto allowed = runtime.allowed.find(kernel);
    const bool is_allowed_more = allowed != runtime.allowed.end();
    require(shape.shared_bytes <= (is_allowed_more ? allowed->second : max_shared_bytes),
            gpuErrorInvalidValue,
            "a block has 49152 bytes of shared memory unless its kernel is allowed more");
    const std::size_t most = is_allowed_more ? max_allowed_bytes : max_shared_bytes;
    push(runtime, host, stream,
         {[&runtime, seed = host.random(),
           work = Kernel{name, shape, kernel, most, std::move(thread)}] {
           run_kernel(runtime, work, seed);
         }});
  }));
}

}  // namespace emulated_gpu

using namespace emulated_gpu;

// ---- Errors

const char* gpuGetErrorName(gpuError_t error) {
  switch (error) {
    case gpuSuccess: return "gpuSuccess";
    case gpuErrorInvalidValue: return "gpuErrorInvalidValue";
    case gpuErrorMemoryAllocation: return "gpuErrorMemoryAllocation";
    case gpuErrorInvalidConfiguration: return "gpuErrorInvalidConfiguration";
    case gpuErrorInsufficientDriver: return "gpuErrorInsufficientDriver";
    case gpuErrorNoDevice: return "gpuErrorNoDevice";
    case gpuErrorInvalidDevice: return "gpuErrorInvalidDevice";
    case gpuErrorInvalidResourceHandle: return "gpuErrorInvalidResourceHandle";
    case gpuErrorNotReady: return "gpuErrorNotReady";
    case gpuErrorLaunchFailure: return "gpuErrorLaunchFailure";
  }
  return "an unknown error";
}

const char* gpuGetErrorString(gpuError_t error) {
  Process& all = process();
  const std::lock_guard lock(all.lock);
  const HostThread& thread = host_thread();
  if (thread.latest.error != error) return gpuGetErrorName(error);
  return all.texts.insert(thread.latest.text).first->c_str();
}

gpuError_t gpuGetLastError() {
  const gpuError_t last = gpuPeekAtLastError();
  const std::lock_guard lock(process().lock);
  host_thread().last = gpuSuccess;
  return last;
}

gpuError_t gpuPeekAtLastError() {
  Process& all = process();
  const std::lock_guard lock(all.lock);
  const HostThread& thread = host_thread();
  return all.runtime->broken.empty() ? thread.last : gpuErrorLaunchFailure;
}

// ---- GPUs

gpuError_t gpuGetDeviceCount(int* count) {
  *count = 0;
  return call([&](Runtime& runtime, HostThread&) {
    *count = runtime.options.gpus;
    require(*count > 0, gpuErrorNoDevice, "there is no emulated GPU");
  });
}

gpuError_t gpuGetDeviceProperties(gpuDeviceProp* properties, int gpu) {
  return call([&](Runtime& runtime, HostThread&) {
    require_gpu(runtime, gpu);
    *properties = {
        "Emulated GPU", runtime.options.memory, max_shared_bytes, max_allowed_bytes, 0, 0, 1};
  });
}

gpuError_t gpuFuncSetAttribute(const void* kernel, gpuFuncAttribute attribute, int bytes) {
  return call([&](Runtime& runtime, HostThread&) {
    require(attribute == gpuFuncAttributeMaxDynamicSharedMemorySize && bytes >= 0 &&
                static_cast<std::size_t>(bytes) <= max_allowed_bytes,
            gpuErrorInvalidValue, "a block has at most 232448 bytes of shared memory");
    runtime.allowed[kernel] = static_cast<std::size_t>(bytes);
  });
}

gpuError_t gpuGetDevice(int* gpu) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_gpu(runtime, thread.gpu);
    *gpu = thread.gpu;
  });
}

gpuError_t gpuSetDevice(int gpu) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_gpu(runtime, gpu);
    thread.gpu = gpu;
  });
}

gpuError_t gpuDeviceSynchronize() {
  return call([](Runtime& runtime, HostThread& thread) {
    require_gpu(runtime, thread.gpu);
    const OpenMemory open(runtime);
    runtime.streams.run_everything(thread.gpu, thread.random);
  });
}

// ---- Memory

gpuError_t gpuMemGetInfo(std::size_t* left, std::size_t* total) {
  return call([&](Runtime& runtime, HostThread& thread) {
    *left = current_memory(runtime, thread).left();
    *total = runtime.options.memory;
  });
}

gpuError_t gpuMalloc(void** memory, std::size_t bytes) {
  return call([&](Runtime& runtime, HostThread& thread) {
    *memory = current_memory(runtime, thread).allocate(bytes);
    require(*memory != nullptr, gpuErrorMemoryAllocation, "there is no memory left");
  });
}

gpuError_t gpuFree(void* memory) {
  return call([&](Runtime& runtime, HostThread& thread) {
    if (memory == nullptr) return;
    const auto gpu = runtime.gpu_of(memory);
    require(gpu.has_value(), gpuErrorInvalidValue, "what is freed is not the GPU's memory");
    {
      const OpenMemory open(runtime);
      runtime.streams.run_everything(*gpu, thread.random);
    }
    require(runtime.memory[static_cast<std::size_t>(*gpu)]->release(memory), gpuErrorInvalidValue,
            "what is freed was not allocated, or was freed before");
  });
}

gpuError_t gpuHostMalloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  return call([&](Runtime& runtime, HostThread&) { *memory = runtime.pinned.allocate(bytes); });
}

gpuError_t gpuHostFree(void* memory) {
  return call([&](Runtime& runtime, HostThread&) {
    if (memory == nullptr) return;
    require(runtime.pinned.has(memory), gpuErrorInvalidValue,
            "what is freed is not pinned memory, or was freed before");
    if (runtime.streams.needs(memory, runtime.pinned.bytes(memory))) {
      runtime.broken = "pinned memory is freed while a copy that needs it has still to run";
      throw Failure{gpuErrorInvalidValue, runtime.broken};
    }
    runtime.pinned.release(memory);
  });
}

gpuError_t gpuMemcpyAsync(void* to, const void* from, std::size_t bytes, gpuMemcpyKind kind,
                          gpuStream_t stream) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_stream(runtime, stream);
    if (bytes == 0) return;
    const void* host = kind == gpuMemcpyHostToDevice ? from : to;
    require(kind == gpuMemcpyHostToDevice || runtime.holds(from, bytes), gpuErrorInvalidValue,
            "what is copied from is not within one allocation of the GPU");
    require(kind == gpuMemcpyDeviceToHost || runtime.holds(to, bytes), gpuErrorInvalidValue,
            "what is copied to is not within one allocation of the GPU");
    if (kind == gpuMemcpyDeviceToDevice) {
      push(runtime, thread, stream, {[=] { std::memmove(to, from, bytes); }});
      return;
    }
    require(!runtime.gpu_of(host), gpuErrorInvalidValue,
            "the host's side of a copy is the GPU's memory");
    if (runtime.pinned.holds(host, bytes)) {
      // Unless earlier copies need what it holds.
      if (kind == gpuMemcpyDeviceToHost && !runtime.streams.needs(to, bytes)) {
        std::memset(to, 0xFF, bytes);
      }
      push(runtime, thread, stream, {[=] { std::memcpy(to, from, bytes); }, nullptr, host, bytes});
      return;
    }
    require(!runtime.pinned.touches(host, bytes), gpuErrorInvalidValue,
            "the host's side of a copy is not within one pinned allocation");
    if (kind == gpuMemcpyHostToDevice) {
      const auto* first = static_cast<const char*>(from);
      push(runtime, thread, stream, {[to, staged = std::vector<char>(first, first + bytes)] {
             std::memcpy(to, staged.data(), staged.size());
           }});
    } else {
      push(runtime, thread, stream, {[=] { std::memcpy(to, from, bytes); }});
      run_all(runtime, thread, stream);
    }
  });
}

gpuError_t gpuMemsetAsync(void* memory, int byte, std::size_t bytes, gpuStream_t stream) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_stream(runtime, stream);
    if (bytes == 0) return;
    require(runtime.holds(memory, bytes), gpuErrorInvalidValue,
            "what is filled is not within one allocation of the GPU");
    push(runtime, thread, stream, {[=] { std::memset(memory, byte, bytes); }});
  });
}

// ---- Streams

gpuError_t gpuStreamCreateWithFlags(gpuStream_t* stream, unsigned flags) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_gpu(runtime, thread.gpu);
    require(flags == gpuStreamNonBlocking, gpuErrorInvalidValue,
            "the emulated GPU has streams with gpuStreamNonBlocking alone");
    *stream = runtime.streams.create(thread.gpu);
  });
}

gpuError_t gpuStreamDestroy(gpuStream_t stream) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_stream(runtime, stream);
    run_all(runtime, thread, stream);
    runtime.streams.destroy(stream);
  });
}

gpuError_t gpuStreamSynchronize(gpuStream_t stream) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_stream(runtime, stream);
    run_all(runtime, thread, stream);
  });
}

gpuError_t gpuStreamQuery(gpuStream_t stream) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_stream(runtime, stream);
    if (!stream->operations.empty()) {
      const OpenMemory open(runtime);
      runtime.streams.advance(*stream, thread.random);
    }
    require(stream->operations.empty(), gpuErrorNotReady, "the stream has still work to run");
  });
}

gpuError_t gpuStreamWaitEvent(gpuStream_t stream, gpuEvent_t event, unsigned /*flags*/) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_stream(runtime, stream);
    require_event(runtime, event);
    if (event->latest == nullptr) return;
    push(runtime, thread, stream, {[] {}, event->latest});
  });
}

// ---- Events

gpuError_t gpuEventCreateWithFlags(gpuEvent_t* event, unsigned flags) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_gpu(runtime, thread.gpu);
    runtime.events.push_back(std::make_unique<Event>());
    *event = runtime.events.back().get();
    (*event)->gpu = thread.gpu;
    (*event)->is_timed = (flags & gpuEventDisableTiming) == 0;
  });
}

gpuError_t gpuEventDestroy(gpuEvent_t event) {
  return call([&](Runtime& runtime, HostThread&) {
    require_event(runtime, event);
    std::erase_if(runtime.events, [&](const auto& one) { return one.get() == event; });
  });
}

gpuError_t gpuEventRecord(gpuEvent_t event, gpuStream_t stream) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_stream(runtime, stream);
    require_event(runtime, event);
    require(event->gpu == stream->gpu, gpuErrorInvalidResourceHandle,
            "the event belongs to another GPU than the stream");
    auto record = std::make_shared<Record>();
    record->stream = stream;
    event->latest = record;
    push(runtime, thread, stream, {[record] {
           record->done = true;
           record->time = now();
         }});
  });
}

gpuError_t gpuEventQuery(gpuEvent_t event) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_event(runtime, event);
    const auto record = event->latest;
    if (record == nullptr || record->done) return;
    const OpenMemory open(runtime);
    runtime.streams.advance(*record->stream, thread.random);
    require(record->done, gpuErrorNotReady, "the event has still to come");
  });
}

gpuError_t gpuEventSynchronize(gpuEvent_t event) {
  return call([&](Runtime& runtime, HostThread& thread) {
    require_event(runtime, event);
    const auto record = event->latest;
    if (record == nullptr || record->done) return;
    const OpenMemory open(runtime);
    runtime.streams.run_until(
        *record->stream, [&] { return record->done; }, thread.random);
  });
}

gpuError_t gpuEventElapsedTime(float* milliseconds, gpuEvent_t from, gpuEvent_t to) {
  return call([&](Runtime& runtime, HostThread&) {
    require_event(runtime, from);
    require_event(runtime, to);
    require(from->is_timed && to->is_timed && from->latest != nullptr && to->latest != nullptr,
            gpuErrorInvalidResourceHandle, "the event was never recorded, or has no time");
    require(from->latest->done && to->latest->done, gpuErrorNotReady,
            "the event has still to come");
    *milliseconds = static_cast<float>(to->latest->time - from->latest->time) * 1e-6F;
  });
}
