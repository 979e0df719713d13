// Kernels, right and wrong ones, for tests of the emulated GPU. Each function
// starts one; `n` is the number of threads of its block, unless said otherwise.
#pragma once

#include <emulated_gpu.h>

#include <cstdint>

namespace pipesim::testing {

// x[i] += amount, for any n.
void add_to(gpuStream_t stream, int n, float* x, float amount);
// y[i] = x[i], for any n.
void copy_numbers(gpuStream_t stream, int n, const float* x, float* y);
// y[i] = x[(i + by) % n], through shared memory. Without its barrier it is wrong.
void rotate_right(gpuStream_t stream, int n, int by, const float* x, float* y);
void rotate_without_barrier(gpuStream_t stream, int n, int by, const float* x, float* y);
// x[i] = the sum of all x, by a tree, for blocks of `n` each. Without its last
// barrier of each round it is wrong.
void sum_blocks(gpuStream_t stream, int blocks, int n, float* x);
// The first half of the threads meets one barrier more.
void meet_unequal_barriers(gpuStream_t stream, int n);
// y[i] is what shared memory, or dynamic shared memory, holds at first.
void read_fresh_memory(gpuStream_t stream, int n, float* fixed, float* dynamic);
// Uses so many bytes of static shared memory, up to 64 KiB.
void use_shared_memory(gpuStream_t stream, int bytes, float* y);
// y[4 i ...] = threadIdx.x, blockIdx.x, blockIdx.y and blockIdx.z of thread i of all.
void tell_places(gpuStream_t stream, dim3 blocks, int n, float* y);
// One thread that writes x[at].
void write_at(gpuStream_t stream, float* x, std::int64_t at);
// One thread that reads x[at] for nothing, then y[0] = 1. Without an x it is one of
// the 100 numbers of dynamic shared memory.
void read_at(gpuStream_t stream, const float* x, std::int64_t at, float* y);
// Starts a kernel that does nothing.
void start(gpuStream_t stream, dim3 blocks, int n, std::size_t shared_bytes = 0);
// Lets start() ask for so much.
gpuError_t allow_shared_memory(int bytes);

}  // namespace pipesim::testing
