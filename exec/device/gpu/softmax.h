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
__device__ inline Normaliser softmax(std::int64_t count, float factor, float* x, float* room) {
  float own = -INFINITY;
  each_group_of_row(count, [&](std::int64_t i, int n) {
    const Four four = load(x + i, n);
    for (int j = 0; j < 4; ++j) {
      if (j < n) own = Largest()(own, four.v[j]);
    }
  });
  const float most = combined(own, room, Largest());
  const float total = sum_of_row(count, room, [&](std::int64_t i, int n) {
    Four e = load(x + i, n);
    for (float& v : e.v) v = expf((v - most) * factor);
    store(x + i, e, n);
    return e;
  });
  const float inverse = 1 / total;
  each_group_of_row(count, [&](std::int64_t i, int n) {
    Four e = load(x + i, n);
    for (float& v : e.v) v *= inverse;
    store(x + i, e, n);
  });
  return {most, total};
}

}  // namespace pipesim::exec::kernels
