#include "tests/gpu/emulated_gpu_kernels.h"

#include "tests/emulated_gpu/address_sanitizer.h"

namespace pipesim::testing {
namespace {

constexpr int most = 1024;  // threads

__global__ void add_kernel(int n, float* x, float amount) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] += amount;
}

__global__ void copy_kernel(int n, const float* x, float* y) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = __ldg(x + i);
}

template <bool waits>
__global__ void __launch_bounds__(1024)
    rotate_kernel(int by, const float* __restrict__ x, float* __restrict__ y) {
  __shared__ float room[most];
  room[threadIdx.x] = x[threadIdx.x];
  if (waits) __syncthreads();
  y[threadIdx.x] = room[(threadIdx.x + static_cast<unsigned>(by)) % blockDim.x];
}

__global__ void sum_kernel(float* x) {
  __shared__ float room[most];
  float* own = x + std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  room[threadIdx.x] = *own;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) room[threadIdx.x] += room[threadIdx.x + half];
    __syncthreads();
  }
  *own = room[0];
}

__global__ void unequal_kernel() {
  __syncthreads();
  if (threadIdx.x < blockDim.x / 2) __syncthreads();
}

__global__ void fresh_kernel(float* fixed, float* dynamic) {
  __shared__ float room[most];
  const auto* more = static_cast<const float*>(emulated_gpu::dynamic_shared());
  fixed[threadIdx.x] = room[threadIdx.x];
  room[threadIdx.x] = 1;  // or the compiler knows what it holds
  dynamic[threadIdx.x] = more[threadIdx.x];
}

__global__ void shared_kernel(int bytes, float* y) {
  __shared__ char room[65536];
  for (int i = 0; i < bytes; ++i) room[i] = static_cast<char>(i % 100);
  *y = room[bytes / 2];
}

__global__ void places_kernel(float* y) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  auto* four = reinterpret_cast<float4*>(y) + (block * blockDim.x + threadIdx.x);
  *four = make_float4(static_cast<float>(threadIdx.x), static_cast<float>(blockIdx.x),
                      static_cast<float>(blockIdx.y), static_cast<float>(blockIdx.z));
}

// Even where the address sanitizer would not let it.
__global__ PIPESIM_UNWATCHED void write_kernel(float* x, std::int64_t at) { x[at] = 1; }

__global__ void read_kernel(const float* x, std::int64_t at, float* y) {
  if (x == nullptr) x = static_cast<const float*>(emulated_gpu::dynamic_shared());
  volatile float unused = x[at];
  static_cast<void>(unused);
  *y = 1;
}

__global__ void nothing_kernel() {}

constexpr int each = 64;  // threads of a block, of what is for any n

unsigned blocks_for(int n) { return static_cast<unsigned>((n + each - 1) / each); }

}  // namespace

using emulated_gpu::launch;

void add_to(gpuStream_t stream, int n, float* x, float amount) {
  launch(stream, "add_to", {blocks_for(n), each}, add_kernel, n, x, amount);
}
void copy_numbers(gpuStream_t stream, int n, const float* x, float* y) {
  launch(stream, "copy_numbers", {blocks_for(n), each}, copy_kernel, n, x, y);
}
void rotate_right(gpuStream_t stream, int n, int by, const float* x, float* y) {
  launch(stream, "rotate_right", {1, n}, rotate_kernel<true>, by, x, y);
}
void rotate_without_barrier(gpuStream_t stream, int n, int by, const float* x, float* y) {
  launch(stream, "rotate_without_barrier", {1, n}, rotate_kernel<false>, by, x, y);
}
void sum_blocks(gpuStream_t stream, int blocks, int n, float* x) {
  launch(stream, "sum_blocks", {static_cast<unsigned>(blocks), n}, sum_kernel, x);
}
void meet_unequal_barriers(gpuStream_t stream, int n) {
  launch(stream, "meet_unequal_barriers", {3, n}, unequal_kernel);
}
void read_fresh_memory(gpuStream_t stream, int n, float* fixed, float* dynamic) {
  launch(stream, "read_fresh_memory", {1, n, static_cast<std::size_t>(n) * sizeof(float)},
         fresh_kernel, fixed, dynamic);
}
void use_shared_memory(gpuStream_t stream, int bytes, float* y) {
  launch(stream, "use_shared_memory", {1, 1}, shared_kernel, bytes, y);
}
void tell_places(gpuStream_t stream, dim3 blocks, int n, float* y) {
  launch(stream, "tell_places", {blocks, n}, places_kernel, y);
}
void write_at(gpuStream_t stream, float* x, std::int64_t at) {
  launch(stream, "write_at", {1, 1}, write_kernel, x, at);
}
void read_at(gpuStream_t stream, const float* x, std::int64_t at, float* y) {
  launch(stream, "read_at", {1, 1, 100 * sizeof(float)}, read_kernel, x, at, y);
}
void start(gpuStream_t stream, dim3 blocks, int n, std::size_t shared_bytes) {
  launch(stream, "start", {blocks, n, shared_bytes}, nothing_kernel);
}

gpuError_t allow_shared_memory(int bytes) {
  return gpuFuncSetAttribute(nothing_kernel, gpuFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

}  // namespace pipesim::testing
