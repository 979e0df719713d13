// The softmax of a row by a block. For .cu files alone.
#pragma once

#include "exec/device/gpu/kernel.h"

namespace pipesim::exec::kernels {

struct Normaliser {
  float largest;
  float sum;  // of exp(factor (x - largest))
};

// x becomes its softmax, after scaling by `factor`, which is above 0. All
// threads of the block call it.
template <typename T>
__device__ inline Normaliser softmax(std::int64_t count, float factor, T* x, float* room) {
  constexpr int size = group_of<T>;
  float own = -INFINITY;
  each_group_of_row<size>(count, [&](std::int64_t i, int n) {
    const auto group = load(x + i, n);
    for (int j = 0; j < size; ++j) {
      if (j < n) own = Largest()(own, group.v[j]);
    }
  });
  const float most = combined(own, room, Largest());
  const auto exponentials = [&](std::int64_t i, int n) {
    auto e = load(x + i, n);
    for (float& v : e.v) v = expf((v - most) * factor);
    return e;
  };
  const float total = sum_of_row<size>(count, room, exponentials);
  const float inverse = 1 / total;
  each_group_of_row<size>(count, [&](std::int64_t i, int n) {
    auto e = exponentials(i, n);
    for (float& v : e.v) v *= inverse;
    store(x + i, e, n);
  });
  return {most, total};
}

}  // namespace pipesim::exec::kernels
