// A GPU that a CPU stands in for, so that kernels and all that is asynchronous
// around them are tested on any machine.
//
// exec/device/gpu/gpu.h finds its names here when PIPESIM_GPU_EMULATED is
// defined, and kernels their language. They mean what CUDA's mean, but where
// CUDA forgives or is merely likely to go wrong, this does go wrong:
//
// - Streams are lazy. What was asked for runs when somebody waits or asks for an
//   event, or when a thousand operations are waiting. Of the streams that could
//   go on, a generator picks one. A copy to pinned memory fills it with 0xFF
//   until it runs. An even seed also runs some operations as soon as asked for. Who waits for
//   something that comes from outside of the GPU lets all else run first that can.
// - The threads of a block run in another order from barrier to barrier.
// - Fresh memory of the GPU and of blocks is all 0xFF, which is NaN. The host
//   can't touch the GPU's memory: that is a segmentation fault, until more than
//   4 MiB are taken.
// - A kernel that writes beside allocations, or whose threads do not all meet
//   the same barriers, fails with its name; then every call does.
// - There is no default stream, and none of CUDA's warps.
//
// PIPESIM_EMULATED_GPU_SEED (1), PIPESIM_EMULATED_GPUS (1) and
// PIPESIM_EMULATED_GPU_MIB (1024, of each) are read once. Any thread may call
// everything; one call runs at a time. A thread's choices depend on the seed and
// on its own calls alone.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

// ---- The language of kernels

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// Nothing else in a library with kernels may be thread_local: see shared_memory.h.
#define __shared__ static thread_local
#define __syncthreads emulated_gpu::barrier
#define __ldg(pointer) (*(pointer))
#define __expf expf
#define __logf logf
#define __fdividef(a, b) ((a) / (b))
#define rsqrtf(x) (1.0F / sqrtf(x))

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned columns = 1, unsigned rows = 1, unsigned planes = 1)
      : x(columns), y(rows), z(planes) {}
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
constexpr float2 make_float2(float x, float y) { return {x, y}; }
constexpr float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
constexpr int2 make_int2(int x, int y) { return {x, y}; }
constexpr int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
constexpr uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// Of the thread that is running.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

// ---- The runtime

enum gpuError_t : int {
  gpuSuccess = 0,
  gpuErrorInvalidValue = 1,
  gpuErrorMemoryAllocation = 2,
  gpuErrorInvalidConfiguration = 9,
  gpuErrorInsufficientDriver = 35,
  gpuErrorNoDevice = 100,
  gpuErrorInvalidDevice = 101,
  gpuErrorInvalidResourceHandle = 400,
  gpuErrorNotReady = 600,
  gpuErrorLaunchFailure = 719,
};
const char* gpuGetErrorName(gpuError_t error);
// Of the calling thread's last failure with that error: what exactly was wrong.
const char* gpuGetErrorString(gpuError_t error);
// Of the calling thread, as in CUDA: not gpuErrorNotReady.
gpuError_t gpuGetLastError();
gpuError_t gpuPeekAtLastError();

struct gpuDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  std::size_t sharedMemPerBlockOptin;
  int major;
  int minor;
  int multiProcessorCount;
};
gpuError_t gpuGetDeviceCount(int* count);
gpuError_t gpuGetDeviceProperties(gpuDeviceProp* properties, int gpu);
gpuError_t gpuGetDevice(int* gpu);
gpuError_t gpuSetDevice(int gpu);
gpuError_t gpuDeviceSynchronize();

enum gpuFuncAttribute : int { gpuFuncAttributeMaxDynamicSharedMemorySize = 8 };
// Lets launches of the kernel ask for so much.
gpuError_t gpuFuncSetAttribute(const void* kernel, gpuFuncAttribute attribute, int bytes);
template <typename... Parameters>
gpuError_t gpuFuncSetAttribute(void (*kernel)(Parameters...), gpuFuncAttribute attribute,
                               int bytes) {
  return gpuFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, bytes);
}

gpuError_t gpuMemGetInfo(std::size_t* left, std::size_t* total);
gpuError_t gpuMalloc(void** memory, std::size_t bytes);
// Waits for all that was asked of the GPU.
gpuError_t gpuFree(void* memory);
gpuError_t gpuHostMalloc(void** memory, std::size_t bytes, unsigned flags = 0);
// Fails where a copy that needs it has still to run.
gpuError_t gpuHostFree(void* memory);

namespace emulated_gpu {
struct Stream;
struct Event;
}  // namespace emulated_gpu
using gpuStream_t = emulated_gpu::Stream*;
using gpuEvent_t = emulated_gpu::Event*;

inline constexpr unsigned gpuStreamNonBlocking = 1;
gpuError_t gpuStreamCreateWithFlags(gpuStream_t* stream, unsigned flags);
gpuError_t gpuStreamDestroy(gpuStream_t stream);
gpuError_t gpuStreamSynchronize(gpuStream_t stream);
gpuError_t gpuStreamQuery(gpuStream_t stream);
gpuError_t gpuStreamWaitEvent(gpuStream_t stream, gpuEvent_t event, unsigned flags = 0);

inline constexpr unsigned gpuEventDefault = 0;
inline constexpr unsigned gpuEventDisableTiming = 2;
gpuError_t gpuEventCreateWithFlags(gpuEvent_t* event, unsigned flags);
gpuError_t gpuEventDestroy(gpuEvent_t event);
gpuError_t gpuEventRecord(gpuEvent_t event, gpuStream_t stream);
gpuError_t gpuEventQuery(gpuEvent_t event);
gpuError_t gpuEventSynchronize(gpuEvent_t event);
// Milliseconds between the moments in which they ran.
gpuError_t gpuEventElapsedTime(float* milliseconds, gpuEvent_t from, gpuEvent_t to);

enum gpuMemcpyKind : int {
  gpuMemcpyHostToDevice = 1,
  gpuMemcpyDeviceToHost = 2,
  gpuMemcpyDeviceToDevice = 3,
};
// From memory that isn't pinned it is read before the call returns; into such
// memory the call returns once all is done.
gpuError_t gpuMemcpyAsync(void* to, const void* from, std::size_t bytes, gpuMemcpyKind kind,
                          gpuStream_t stream);
gpuError_t gpuMemsetAsync(void* memory, int byte, std::size_t bytes, gpuStream_t stream);

namespace emulated_gpu {

void barrier();

struct Shape {
  dim3 blocks;
  int threads = 1;               // in a block
  std::size_t shared_bytes = 0;  // of dynamic shared memory
};
// Where the running block's lies, aligned to 256 bytes.
void* dynamic_shared();

// Asks for it; what is wrong with the shape is gpuGetLastError()'s.
void launch_thunk(gpuStream_t stream, const char* name, const Shape& shape, const void* kernel,
                  std::function<void()> thread);

template <typename... Parameters>
void launch(gpuStream_t stream, const char* name, const Shape& shape, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... arguments) {
  launch_thunk(stream, name, shape, reinterpret_cast<const void*>(kernel),
               [=] { kernel(arguments...); });
}

struct Options {
  std::uint64_t seed = 1;
  int gpus = 1;
  std::size_t memory = std::size_t{1} << 30;  // bytes of each
};
// Forgets everything, errors too. For tests of all this.
void restart(const Options& options);

}  // namespace emulated_gpu
