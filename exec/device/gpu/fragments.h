// Small bfloat16 matrix multiplies by a warp of 32 threads, on tensor cores.
//
// Each thread holds a part of every matrix: the layouts are those of PTX's
// mma.m16n8k16 and ldmatrix. With lane = thread % 32, group = lane / 4 and
// place = lane % 4, a word of two numbers holds
//   A (16 x 16)  rows group + 8 (word % 2), columns 2 place + 8 (word / 2) and the next
//   B (16 x 8)   rows 2 place + 8 word and the next, column group
// and a sum C (16 x 8) rows group + 8 (i / 2), column 2 place + i % 2.
// Shared memory is given by byte addresses. All threads of a block call these functions
// at the same places: the emulated GPU relies on it, in plain C++.
// For CUDA from compute capability 8.0 on, and for .cu files only.
#pragma once

#include <cstdint>

#include "exec/device/gpu/bfloat16.h"
#include "exec/device/gpu/kernel.h"

namespace pipesim::exec::kernels {

struct alignas(16) FragmentA {
  std::uint32_t word[4];
};
// Two side by side: 16 x 16.
struct FragmentB {
  std::uint32_t word[4];
};
struct FragmentC {
  float v[4];
};

#ifdef PIPESIM_GPU_EMULATED

using SharedAddress = std::uintptr_t;

__device__ inline SharedAddress dynamic_shared() {
  return reinterpret_cast<SharedAddress>(emulated_gpu::dynamic_shared());
}

template <typename T>
__device__ inline T& shared_at(SharedAddress address) {
  return *reinterpret_cast<T*>(address);
}

// The values contributed by the block's threads, until the next barrier.
template <typename T>
__device__ inline const T* gathered(const T& own) {
  __shared__ T room[block_threads];
  room[threadIdx.x] = own;
  __syncthreads();
  return room + threadIdx.x / 32 * 32;
}

__device__ inline float number_of(const std::uint32_t word, unsigned half) {
  return float_of_bits(half == 0 ? word << 16U : word & 0xffff0000U);
}

struct Operands {
  FragmentA a;
  std::uint32_t b[2];
};

__device__ inline void multiply_add(FragmentC& c, const FragmentA& a, const FragmentB& b,
                                    int which) {
  const Operands* lanes = gathered(Operands{a, {b.word[2 * which], b.word[2 * which + 1]}});
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + i / 2 * 8;
    const unsigned column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned place = k % 8 / 2;
      const Operands& of_row = lanes[row % 8 * 4 + place];
      const Operands& of_column = lanes[column * 4 + place];
      c.v[i] += number_of(of_row.a.word[row / 8 + k / 8 * 2], k % 2) *
                number_of(of_column.b[k / 8], k % 2);
    }
  }
  __syncthreads();
}

template <bool transposed>
__device__ inline void load_matrices(std::uint32_t (&word)[4], SharedAddress own_row) {
  const SharedAddress* rows = gathered(own_row);
  const unsigned group = threadIdx.x % 32 / 4;
  const unsigned place = threadIdx.x % 4;
  const auto at = [&](unsigned matrix, unsigned row, unsigned column) {
    return std::uint32_t{shared_at<gpuBfloat16>(rows[matrix * 8 + row] + 2 * column).bits};
  };
  for (unsigned i = 0; i < 4; ++i) {
    word[i] = transposed ? at(i, 2 * place, group) | at(i, 2 * place + 1, group) << 16U
                         : at(i, group, 2 * place) | at(i, group, 2 * place + 1) << 16U;
  }
  __syncthreads();
}

__device__ inline float of_lane_across(float own, unsigned distance) {
  const float* lanes = gathered(own);
  const float other = lanes[(threadIdx.x % 32) ^ distance];
  __syncthreads();
  return other;
}

__device__ inline void warp_barrier() { __syncthreads(); }
__device__ inline void pair_barrier_pass(int /*pair*/) { __syncthreads(); }
__device__ inline void pair_barrier_wait(int /*pair*/) { __syncthreads(); }

template <int bytes>
__device__ inline void start_copy(SharedAddress to, const void* from, bool there) {
  if (there) {
    memcpy(reinterpret_cast<void*>(to), from, bytes);
  } else {
    memset(reinterpret_cast<void*>(to), 0, bytes);
  }
}
__device__ inline void finish_copies() {}

__device__ inline float power_of_two(float x) { return exp2f(x); }

#else

using SharedAddress = std::uint32_t;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define PIPESIM_TENSOR_ASM(...) __trap()
#else
#define PIPESIM_TENSOR_ASM(...) asm volatile(__VA_ARGS__)
#endif

extern __shared__ uint4 dynamic_shared_words[];

__device__ inline SharedAddress dynamic_shared() {
  return static_cast<SharedAddress>(__cvta_generic_to_shared(dynamic_shared_words));
}

template <typename T>
__device__ inline T& shared_at(SharedAddress address) {
  return *static_cast<T*>(__cvta_shared_to_generic(address));
}

// c += a times the left or right (which 0 or 1) matrix of b.
__device__ inline void multiply_add(FragmentC& c, const FragmentA& a, const FragmentB& b,
                                    int which) {
  PIPESIM_TENSOR_ASM(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[2 * which]),
        "r"(b.word[2 * which + 1]));
}

// Loads four matrices of 8 x 8; lane i passes the address of row i % 8 of matrix i / 8, aligned to
// 16 bytes. Word i has row `group`, columns 2 place and the next, of matrix i; transposed, rows 2
// place and the next, column `group`.
template <bool transposed>
__device__ inline void load_matrices(std::uint32_t (&word)[4], SharedAddress own_row) {
  if constexpr (transposed) {
    PIPESIM_TENSOR_ASM("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                       : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                       : "r"(own_row)
                       : "memory");
  } else {
    PIPESIM_TENSOR_ASM("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                       : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                       : "r"(own_row)
                       : "memory");
  }
}

// The value of the lane whose number differs in that bit.
__device__ inline float of_lane_across(float own, unsigned distance) {
  return __shfl_xor_sync(0xffffffffU, own, static_cast<int>(distance));
}

// Orders what the warp's lanes read before it and write after it.
__device__ inline void warp_barrier() { __syncwarp(); }

// For two warps, with a pair number from 1 to 15: the second waits for the writes of the first
// before its pass.
__device__ inline void pair_barrier_pass(int pair) {
  PIPESIM_TENSOR_ASM("bar.arrive %0, 64;" ::"r"(pair) : "memory");
}
__device__ inline void pair_barrier_wait(int pair) {
  PIPESIM_TENSOR_ASM("bar.sync %0, 64;" ::"r"(pair) : "memory");
}

// Starts a copy of 4 or 16 bytes, with the same alignment, to shared memory, or of zeros unless
// `there`. Other threads see it after finish_copies() and a barrier.
template <int bytes>
__device__ inline void start_copy(SharedAddress to, const void* from, bool there) {
  const int count = there ? bytes : 0;
  if constexpr (bytes == 16) {
    PIPESIM_TENSOR_ASM("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                       "r"(count)
                       : "memory");
  } else {
    PIPESIM_TENSOR_ASM("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
                       "r"(count)
                       : "memory");
  }
}
// Waits for the copies that this thread has started.
__device__ inline void finish_copies() { PIPESIM_TENSOR_ASM("cp.async.wait_all;" ::: "memory"); }

// 2^x, off by at most 2^-22 of it.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#undef PIPESIM_TENSOR_ASM

#endif

}  // namespace pipesim::exec::kernels
