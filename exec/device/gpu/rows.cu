// Layer norm and RMS norm, row by row: a block a row.
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/kernels.h"

namespace pipesim::exec::kernels {
namespace {

template <typename T>
__global__ void layer_norm_kernel(std::int64_t columns, const T* x, const T* gamma, const T* beta,
                                  T* y, float* mean, float* rstd) {
  constexpr int size = group_of<T>;
  __shared__ float room[block_threads];
  const std::int64_t row = blockIdx.x;
  x += row * columns;
  y += row * columns;
  const auto width = static_cast<float>(columns);
  const float average =
      sum_of_row<size>(columns, room, [&](std::int64_t i, int n) { return load(x + i, n); }) /
      width;
  const float variance = sum_of_row<size>(columns, room, [&](std::int64_t i, int n) {
    auto away = load(x + i, n);
    for (float& v : away.v) v = (v - average) * (v - average);
    return away;
  });
  const float inverse = 1 / sqrtf(variance / width + 1e-5F);
  each_group_of_row<size>(columns, [&](std::int64_t i, int n) {
    auto value = load(x + i, n);
    const auto scale = load(gamma + i, n);
    const auto shift = load(beta + i, n);
    for (int j = 0; j < size; ++j) {
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
template <typename T>
__global__ void input_gradient_kernel(std::int64_t columns, const float* mean, const float* rstd,
                                      const T* dy, const T* x, const T* gamma, const T* residual,
                                      T* dx) {
  constexpr int size = group_of<T>;
  __shared__ float room[block_threads];
  const std::int64_t row = blockIdx.x;
  const std::int64_t start = row * columns;
  const float average = mean[row];
  const float inverse = rstd[row];
  const auto width = static_cast<float>(columns);
  const auto scaled = [&](std::int64_t i, int n) {
    auto g = load(dy + start + i, n);
    const auto scale = load(gamma + i, n);
    for (int j = 0; j < size; ++j) g.v[j] *= scale.v[j];
    return g;
  };
  const auto unit = [&](std::int64_t i, int n) {
    auto u = load(x + start + i, n);
    for (float& v : u.v) v = (v - average) * inverse;
    return u;
  };
  const float mean_g = sum_of_row<size>(columns, room, scaled) / width;
  const float mean_gu = sum_of_row<size>(columns, room,
                                         [&](std::int64_t i, int n) {
                                           auto g = scaled(i, n);
                                           const auto u = unit(i, n);
                                           for (int j = 0; j < size; ++j) g.v[j] *= u.v[j];
                                           return g;
                                         }) /
                        width;
  each_group_of_row<size>(columns, [&](std::int64_t i, int n) {
    auto g = scaled(i, n);
    const auto u = unit(i, n);
    for (int j = 0; j < size; ++j) g.v[j] = (g.v[j] - mean_g - u.v[j] * mean_gu) * inverse;
    if (residual != nullptr) {
      const auto other = load(residual + start + i, n);
      for (int j = 0; j < size; ++j) g.v[j] += other.v[j];
    }
    store(dx + start + i, g, n);
  });
}

template <typename T>
__global__ void rms_norm_kernel(std::int64_t columns, const T* x, const T* gamma, T* y,
                                float* rstd) {
  constexpr int size = group_of<T>;
  __shared__ float room[block_threads];
  const std::int64_t row = blockIdx.x;
  x += row * columns;
  y += row * columns;
  const float squares = sum_of_row<size>(columns, room, [&](std::int64_t i, int n) {
    auto value = load(x + i, n);
    for (float& v : value.v) v *= v;
    return value;
  });
  const float inverse = 1 / sqrtf(squares / static_cast<float>(columns) + 1e-5F);
  each_group_of_row<size>(columns, [&](std::int64_t i, int n) {
    auto value = load(x + i, n);
    const auto scale = load(gamma + i, n);
    for (int j = 0; j < size; ++j) value.v[j] = value.v[j] * inverse * scale.v[j];
    store(y + i, value, n);
  });
  if (threadIdx.x == 0) rstd[row] = inverse;
}

// With u = x rstd and g = dy gamma: dx = rstd (g - u mean(g u)).
template <typename T>
__global__ void rms_input_gradient_kernel(std::int64_t columns, const float* rstd, const T* dy,
                                          const T* x, const T* gamma, const T* residual, T* dx) {
  constexpr int size = group_of<T>;
  __shared__ float room[block_threads];
  const std::int64_t row = blockIdx.x;
  const std::int64_t start = row * columns;
  const float inverse = rstd[row];
  const auto scaled = [&](std::int64_t i, int n) {
    auto g = load(dy + start + i, n);
    const auto scale = load(gamma + i, n);
    for (int j = 0; j < size; ++j) g.v[j] *= scale.v[j];
    return g;
  };
  const float mean_gu = sum_of_row<size>(columns, room,
                                         [&](std::int64_t i, int n) {
                                           auto g = scaled(i, n);
                                           const auto u = load(x + start + i, n);
                                           for (int j = 0; j < size; ++j) {
                                             g.v[j] *= u.v[j] * inverse;
                                           }
                                           return g;
                                         }) /
                        static_cast<float>(columns);
  each_group_of_row<size>(columns, [&](std::int64_t i, int n) {
    auto g = scaled(i, n);
    const auto u = load(x + start + i, n);
    for (int j = 0; j < size; ++j) g.v[j] = (g.v[j] - u.v[j] * inverse * mean_gu) * inverse;
    if (residual != nullptr) {
      const auto other = load(residual + start + i, n);
      for (int j = 0; j < size; ++j) g.v[j] += other.v[j];
    }
    store(dx + start + i, g, n);
  });
}

}  // namespace

template <typename T>
void layer_norm(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x,
                const T* gamma, const T* beta, T* y, float* mean, float* rstd) {
  if (rows <= 0) return;
  launch(stream, "layer_norm", grid(rows), layer_norm_kernel<T>, columns, x, gamma, beta, y, mean,
         rstd);
}

template <typename T>
void layer_norm_input_gradient(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                               const float* mean, const float* rstd, const T* dy, const T* x,
                               const T* gamma, const T* residual, T* dx) {
  if (rows <= 0) return;
  launch(stream, "layer_norm_backward", grid(rows), input_gradient_kernel<T>, columns, mean, rstd,
         dy, x, gamma, residual, dx);
}

template <typename T>
void rms_norm(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x,
              const T* gamma, T* y, float* rstd) {
  if (rows <= 0) return;
  launch(stream, "rms_norm", grid(rows), rms_norm_kernel<T>, columns, x, gamma, y, rstd);
}

template <typename T>
void rms_norm_input_gradient(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                             const float* rstd, const T* dy, const T* x, const T* gamma,
                             const T* residual, T* dx) {
  if (rows <= 0) return;
  launch(stream, "rms_norm_backward", grid(rows), rms_input_gradient_kernel<T>, columns, rstd, dy,
         x, gamma, residual, dx);
}

template decltype(layer_norm<float>) layer_norm<float>;
template decltype(layer_norm<gpuBfloat16>) layer_norm<gpuBfloat16>;
template decltype(layer_norm_input_gradient<float>) layer_norm_input_gradient<float>;
template decltype(layer_norm_input_gradient<gpuBfloat16>) layer_norm_input_gradient<gpuBfloat16>;
template decltype(rms_norm<float>) rms_norm<float>;
template decltype(rms_norm<gpuBfloat16>) rms_norm<gpuBfloat16>;
template decltype(rms_norm_input_gradient<float>) rms_norm_input_gradient<float>;
template decltype(rms_norm_input_gradient<gpuBfloat16>) rms_norm_input_gradient<gpuBfloat16>;

}  // namespace pipesim::exec::kernels
