// The softmax of a row by a block. For .cu files only.
#pragma once

#include "exec/device/gpu/kernel.h"

namespace pipesim::exec::kernels {

struct Normaliser {
  float largest;
  float sum;  // of exp(x - largest)
};

// In one pass, with the largest so far. All threads of the block must call it.
template <typename T>
__device__ inline Normaliser normaliser(std::int64_t count, const T* x, float* room) {
  constexpr int size = group_of<T>;
  float largest = -INFINITY;
  float sum = 0;
  each_pack_of_row(x, count, [&](std::int64_t, int n, Group<size> group) {
    const float before = largest;
    for (int j = 0; j < size; ++j) {
      if (j < n) largest = Largest()(largest, group.v[j]);
    }
    const float base = largest == -INFINITY ? 0.0F : largest;  // if all are, the sum is 0
    for (int j = 0; j < size; ++j) group.v[j] = j < n ? expf(group.v[j] - base) : 0.0F;
    sum = sum * expf(before - base) + tree<size>(group.v, Add());
  });
  const float most = combined(largest, room, Largest());
  return {most, combined(sum * expf(largest - most), room, Add())};
}

// x becomes its softmax, likewise.
template <typename T>
__device__ inline Normaliser softmax(std::int64_t count, T* x, float* room) {
  const Normaliser norm = normaliser(count, x, room);
  const float inverse = 1 / norm.sum;
  each_pack_of_row(x, count, [&](std::int64_t i, int n, Group<group_of<T>> e) {
    for (float& v : e.v) v = expf(v - norm.largest) * inverse;
    store(x + i, e, n);
  });
  return norm;
}

}  // namespace pipesim::exec::kernels
