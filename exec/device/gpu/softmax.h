// The softmax of a row by a block. For .cu files alone.
#pragma once

#include "exec/device/gpu/kernel.h"

namespace pipesim::exec::kernels {

struct Normaliser {
  float largest;
  float sum;  // of exp(factor (x - largest))
};

// Of x, after scaling by `factor`, which is above 0. All threads of the block call it.
template <typename T>
__device__ inline Normaliser normaliser(std::int64_t count, float factor, const T* x, float* room) {
  constexpr int size = group_of<T>;
  float own = -INFINITY;
  each_group_of_row<size>(count, [&](std::int64_t i, int n) {
    const auto group = load(x + i, n);
    for (int j = 0; j < size; ++j) {
      if (j < n) own = Largest()(own, group.v[j]);
    }
  });
  const float most = combined(own, room, Largest());
  const float total = sum_of_row<size>(count, room, [&](std::int64_t i, int n) {
    auto e = load(x + i, n);
    for (float& v : e.v) v = expf((v - most) * factor);
    return e;
  });
  return {most, total};
}

// x becomes its softmax, likewise.
template <typename T>
__device__ inline Normaliser softmax(std::int64_t count, float factor, T* x, float* room) {
  constexpr int size = group_of<T>;
  const Normaliser norm = normaliser(count, factor, x, room);
  const float inverse = 1 / norm.sum;
  each_group_of_row<size>(count, [&](std::int64_t i, int n) {
    auto e = load(x + i, n);
    for (float& v : e.v) v = expf((v - norm.largest) * factor) * inverse;
    store(x + i, e, n);
  });
  return norm;
}

}  // namespace pipesim::exec::kernels
