// bfloat16 in kernels: the upper half of a float32, in two bytes.
//
// A float becomes one by rounding to the nearest, ties to even, and back it is
// exact. Any NaN becomes the same NaN. For .cu files and their callers.
#pragma once

#include <cstdint>
#include <cstring>

#include "exec/device/gpu/gpu.h"

namespace pipesim::exec {

__host__ __device__ inline float float_of_bits(std::uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
__host__ __device__ inline std::uint32_t bits_of_float(float x) {
  std::uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

// Two of them as in memory: the first is the lower half.
__host__ __device__ inline std::uint32_t bfloat16_pair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  const auto rounded = [](float x) {
    const std::uint32_t bits = bits_of_float(x);
    return x != x ? 0x7fffU : (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  };
  return rounded(first) | rounded(second) << 16;
#endif
}

struct gpuBfloat16 {
  gpuBfloat16() = default;
  __host__ __device__ explicit gpuBfloat16(float x)
      : bits(static_cast<std::uint16_t>(bfloat16_pair(x, 0))) {}
  __host__ __device__ operator float() const {  // NOLINT: exact
    return float_of_bits(std::uint32_t{bits} << 16);
  }

  std::uint16_t bits;
};

}  // namespace pipesim::exec
