// Layer norm, row by row: a block a row.
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/kernels.h"

namespace pipesim::exec::kernels {
namespace {

__global__ void layer_norm_kernel(std::int64_t columns, const float* x, const float* gamma,
                                  const float* beta, float* y, float* mean, float* rstd) {
  __shared__ float room[block_threads];
  const std::int64_t row = blockIdx.x;
  x += row * columns;
  y += row * columns;
  const auto size = static_cast<float>(columns);
  const float average =
      sum_of_row(columns, room, [&](std::int64_t i, int n) { return load(x + i, n); }) / size;
  const float variance = sum_of_row(columns, room, [&](std::int64_t i, int n) {
    Four away = load(x + i, n);
    for (float& v : away.v) v = (v - average) * (v - average);
    return away;
  });
  const float inverse = 1 / sqrtf(variance / size + 1e-5F);
  each_group_of_row(columns, [&](std::int64_t i, int n) {
    Four value = load(x + i, n);
    const Four scale = load(gamma + i, n);
    const Four shift = load(beta + i, n);
    for (int j = 0; j < 4; ++j) {
      value.v[j] = (value.v[j] - average) * inverse * scale.v[j] + shift.v[j];
    }
    store(y + i, value, n);
  });
  if (threadIdx.x == 0) {
    mean[row] = average;
    rstd[row] = inverse;
  }
}

// With u = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - u mean(g u)).
__global__ void input_gradient_kernel(std::int64_t columns, const float* dy, const float* x,
                                      const float* gamma, const float* mean, const float* rstd,
                                      const float* residual, float* dx) {
  __shared__ float room[block_threads];
  const std::int64_t row = blockIdx.x;
  const std::int64_t start = row * columns;
  const float average = mean[row];
  const float inverse = rstd[row];
  const auto size = static_cast<float>(columns);
  const auto scaled = [&](std::int64_t i, int n) {
    Four g = load(dy + start + i, n);
    const Four scale = load(gamma + i, n);
    for (int j = 0; j < 4; ++j) g.v[j] *= scale.v[j];
    return g;
  };
  const auto unit = [&](std::int64_t i, int n) {
    Four u = load(x + start + i, n);
    for (float& v : u.v) v = (v - average) * inverse;
    return u;
  };
  const float mean_g = sum_of_row(columns, room, scaled) / size;
  const float mean_gu = sum_of_row(columns, room,
                                   [&](std::int64_t i, int n) {
                                     Four g = scaled(i, n);
                                     const Four u = unit(i, n);
                                     for (int j = 0; j < 4; ++j) g.v[j] *= u.v[j];
                                     return g;
                                   }) /
                        size;
  each_group_of_row(columns, [&](std::int64_t i, int n) {
    Four g = scaled(i, n);
    const Four u = unit(i, n);
    for (int j = 0; j < 4; ++j) g.v[j] = (g.v[j] - mean_g - u.v[j] * mean_gu) * inverse;
    if (residual != nullptr) {
      const Four other = load(residual + start + i, n);
      for (int j = 0; j < 4; ++j) g.v[j] += other.v[j];
    }
    store(dx + start + i, g, n);
  });
}

}  // namespace

void layer_norm(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const float* x,
                const float* gamma, const float* beta, float* y, float* mean, float* rstd) {
  if (rows <= 0) return;
  launch(stream, "layer_norm", grid(rows), layer_norm_kernel, columns, x, gamma, beta, y, mean,
         rstd);
}

void layer_norm_input_gradient(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                               const float* dy, const float* x, const float* gamma,
                               const float* mean, const float* rstd, const float* residual,
                               float* dx) {
  if (rows <= 0) return;
  launch(stream, "layer_norm_backward", grid(rows), input_gradient_kernel, columns, dy, x, gamma,
         mean, rstd, residual, dx);
}

}  // namespace pipesim::exec::kernels
