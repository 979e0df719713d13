// Sums over columns, shared by several files' kernels. For .cu files only.
#pragma once

#include "exec/device/gpu/kernel.h"

namespace pipesim::exec::kernels {

// One array, or two.
struct SumArrays {
  float* sums[2];
};

// sums[s][column], of the arrays that are not null, = or += partials[s][chunk][column] over chunks.
void add_chunks(gpuStream_t stream, const char* name, std::int64_t columns, std::int64_t chunks,
                const float* partials, bool accumulate, const SumArrays& to);

// dgamma and dbeta of a norm; mean and dbeta are null if no mean was subtracted. `partials` is room
// for column_partials() floats.
template <typename T>
void add_norm_columns(gpuStream_t stream, const char* name, std::int64_t rows, std::int64_t columns,
                      const T* dy, const T* x, const float* mean, const float* rstd, float* dgamma,
                      float* dbeta, float* partials);

}  // namespace pipesim::exec::kernels
