// The softmax of a row.
//
// For cpu_operators.cpp only, hence internal linkage.
#pragma once

#include <cstdint>

#include "exec/device/cpu/vector.h"

namespace pipesim::exec {
namespace {

struct Normaliser {
  float largest;
  float sum;  // of exp(factor (x - largest))
};

inline Normaliser normaliser(std::int64_t count, const float* x) {
  const float most = largest(count, x);
  return {most,
          sum(count, [&](std::int64_t i, auto n) { return exponential(load(x + i, n) - most); })};
}

// x becomes its softmax, after scaling by `factor`, which is above 0.
inline Normaliser softmax(std::int64_t count, float factor, float* x) {
  const float most = largest(count, x);
  const float total = sum(count, [&](std::int64_t i, auto n) {
    const Floats e = exponential((load(x + i, n) - most) * factor);
    store(x + i, e, n);
    return e;
  });
  const float inverse = 1 / total;
  each_vector(count, [&](std::int64_t i, auto n) { store(x + i, load(x + i, n) * inverse, n); });
  return {most, total};
}

}  // namespace
}  // namespace pipesim::exec
