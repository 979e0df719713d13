// What the kernels are written with: starting one, groups of four floats, and
// sums by a tree. For .cu files alone.
#pragma once

#include <cstdint>
#include <string>

#include "exec/device/gpu/gpu.h"

namespace pipesim::exec::kernels {

// Threads in a block, a power of two for the trees.
constexpr int block_threads = 256;

constexpr std::int64_t blocks_for(std::int64_t count, std::int64_t each) {
  return (count + each - 1) / each;
}

inline unsigned grid(std::int64_t blocks) { return static_cast<unsigned>(blocks); }

template <typename T>
struct Same {
  using Type = T;
};

// Starts blocks of block_threads threads each. `name`, of the operator, is for
// the work error of a kernel that could not be started.
template <typename... Parameters>
void launch(gpuStream_t stream, const char* name, dim3 blocks, void (*kernel)(Parameters...),
            typename Same<Parameters>::Type... arguments) {
#ifndef PIPESIM_GPU_EMULATED
  kernel<<<blocks, block_threads, 0, stream>>>(arguments...);
#else
  emulated_gpu::launch(stream, name, {blocks, block_threads}, kernel, arguments...);
#endif
  const gpuError_t result = gpuGetLastError();
  if (result != gpuSuccess) check(result, ("run the kernel of " + std::string(name)).c_str());
}

// ---- Four floats at a time

struct Four {
  float v[4];
};

__device__ inline bool is_wide(const float* x) {
  return (reinterpret_cast<std::uintptr_t>(x) & 15U) == 0;
}

// Of those at x, the first n (1 to 4), else 0; by one access where x is aligned.
__device__ inline Four load(const float* x, int n) {
  Four four = {{0, 0, 0, 0}};
  if (n == 4 && is_wide(x)) {
    const float4 all = *reinterpret_cast<const float4*>(x);
    four = {{all.x, all.y, all.z, all.w}};
  } else {
    for (int j = 0; j < 4; ++j) {
      if (j < n) four.v[j] = x[j];
    }
  }
  return four;
}

__device__ inline void store(float* x, const Four& four, int n) {
  if (n == 4 && is_wide(x)) {
    *reinterpret_cast<float4*>(x) = make_float4(four.v[0], four.v[1], four.v[2], four.v[3]);
  } else {
    for (int j = 0; j < 4; ++j) {
      if (j < n) x[j] = four.v[j];
    }
  }
}

// How many of the group of four at `i` there are.
__device__ inline int group_size(std::int64_t i, std::int64_t count) {
  return count - i < 4 ? static_cast<int>(count - i) : 4;
}

// i % columns, without a division of 64 bits where none is needed.
__device__ inline std::int64_t column_of(std::int64_t i, std::int64_t columns) {
  if (((i | columns) >> 32) == 0) {
    return static_cast<std::uint32_t>(i) % static_cast<std::uint32_t>(columns);
  }
  return i % columns;
}

// The values of a row of `columns` that stand over elements i ... i + n - 1 of
// a matrix; the group may go on in the next row.
__device__ inline Four load_over(const float* row, std::int64_t i, std::int64_t columns, int n) {
  std::int64_t column = column_of(i, columns);
  if (column + n <= columns) return load(row + column, n);
  Four four = {{0, 0, 0, 0}};
  for (int j = 0; j < 4; ++j) {
    if (j >= n) break;
    four.v[j] = row[column];
    if (++column == columns) column = 0;
  }
  return four;
}

// body(i, n) for each group of four elements of `count`, a thread each.
template <typename Body>
__global__ void each_group_kernel(std::int64_t count, Body body) {
  const std::int64_t i = 4 * (std::int64_t{blockIdx.x} * block_threads + threadIdx.x);
  if (i < count) body(i, group_size(i, count));
}

template <typename Body>
void each_group(gpuStream_t stream, const char* name, std::int64_t count, const Body& body) {
  if (count <= 0) return;
  launch(stream, name, grid(blocks_for(count, 4 * block_threads)), each_group_kernel<Body>, count,
         body);
}

// ---- A block's sum or largest, which all its threads get

struct Add {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Largest {  // a NaN stays
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

// By a tree over the threads. All threads of the block call it; `room` is
// shared, and free again when it returns.
template <typename T, typename Combine>
__device__ inline T combined(T own, T* room, Combine combine) {
  const unsigned thread = threadIdx.x;
  room[thread] = own;
  __syncthreads();
  for (unsigned half = block_threads / 2; half > 0; half /= 2) {
    if (thread < half) room[thread] = combine(room[thread], room[thread + half]);
    __syncthreads();
  }
  const T all = room[0];
  __syncthreads();
  return all;
}

// body(i, n) for this thread's groups of four of a row, in ascending order.
template <typename Body>
__device__ inline void each_group_of_row(std::int64_t count, Body body) {
  for (std::int64_t i = std::int64_t{4} * threadIdx.x; i < count; i += 4 * block_threads) {
    body(i, group_size(i, count));
  }
}

// The same, added up over the block: body(i, n) returns a Four, of which the
// first n count.
template <typename Body>
__device__ inline float sum_of_row(std::int64_t count, float* room, Body body) {
  Four sum = {{0, 0, 0, 0}};
  each_group_of_row(count, [&](std::int64_t i, int n) {
    const Four four = body(i, n);
    for (int j = 0; j < 4; ++j) {
      if (j < n) sum.v[j] += four.v[j];
    }
  });
  return combined((sum.v[0] + sum.v[1]) + (sum.v[2] + sum.v[3]), room, Add());
}

}  // namespace pipesim::exec::kernels
