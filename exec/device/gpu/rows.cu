// Layer norm and RMS norm, and back through them.
//
// A block has a row at a time. Rows of up to `max_held` numbers a thread are read
// once and kept in registers, longer ones are read again for each step. Backward,
// a block has a chunk of such rows, and adds up its part of the weights' gradients
// on the way; chunks depend only on the number of rows, and are few enough that their sums are
// small compared with the rows.
#include <type_traits>

#include "exec/device/gpu/column_sums.h"
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/kernels.h"

namespace pipesim::exec::kernels {
namespace {

constexpr int max_held = 32;
constexpr std::int64_t max_norm_chunks = 256;
constexpr std::int64_t min_norm_rows = 8;  // in a chunk

// With beta and a subtracted mean, or without.
template <typename T, int held, bool is_centred>
__global__ void norm_kernel(std::int64_t columns, const T* x, const T* gamma, const T* beta, T* y,
                            float* mean, float* rstd) {
  constexpr int size = group_of<T>;
  using Packs = OwnPacks<T, held>;
  __shared__ float room[block_threads];
  const std::int64_t row = blockIdx.x;
  const auto width = static_cast<float>(columns);
  const Packs packs(x + row * columns, columns);
  float average = 0;
  if constexpr (is_centred) {
    average =
        sum_of_row<Packs, size>(
            columns, room, [&](int k, std::int64_t i, int n) { return packs.group(k, i, n); }) /
        width;
  }
  const float squares = sum_of_row<Packs, size>(columns, room, [&](int k, std::int64_t i, int n) {
    auto away = packs.group(k, i, n);
    for (float& v : away.v) v = (v - average) * (v - average);
    return away;
  });
  const float inverse = 1 / sqrtf(squares / width + 1e-5F);
  Packs::each(columns, [&](int k, std::int64_t i, int n) {
    auto value = packs.group(k, i, n);
    const auto scale = load(gamma + i, n);
    for (int j = 0; j < size; ++j) value.v[j] = (value.v[j] - average) * inverse * scale.v[j];
    if constexpr (is_centred) {
      const auto shift = load(beta + i, n);
      for (int j = 0; j < size; ++j) value.v[j] += shift.v[j];
    }
    store(y + row * columns + i, value, n);
  });
  if (threadIdx.x == 0) {
    if constexpr (is_centred) mean[row] = average;
    rstd[row] = inverse;
  }
}

// The arrays of a backward pass; mean is null if none was subtracted.
template <typename T>
struct NormBackward {
  const T* dy;
  const T* x;
  const T* gamma;
  const float* mean;
  const float* rstd;
  const T* residual;  // or null
  T* dx;
};

// With u = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - u mean(g u)), without mean(g)
// if no mean was subtracted. Held rows add up dgamma and dbeta, partials[sum][chunk][column].
template <typename T, int held, bool is_centred>
__global__ void __launch_bounds__(block_threads, 2)
    norm_backward_kernel(std::int64_t rows, std::int64_t columns, std::int64_t each,
                         NormBackward<T> arrays, float* partials) {
  constexpr int size = group_of<T>;
  using Packs = OwnPacks<T, held>;
  __shared__ float room[block_threads];
  const auto width = static_cast<float>(columns);
  const bool has_residual = arrays.residual != nullptr;
  const std::int64_t end = (blockIdx.x + 1) * each < rows ? (blockIdx.x + 1) * each : rows;
  const Packs gamma(arrays.gamma, columns);
  Group<size> dgamma[held > 0 ? held : 1] = {};
  Group<size> dbeta[held > 0 && is_centred ? held : 1] = {};
  for (std::int64_t row = blockIdx.x * each; row < end; ++row) {
    const std::int64_t start = row * columns;
    const Packs x(arrays.x + start, columns);
    const Packs dy(arrays.dy + start, columns);
    const Packs residual(has_residual ? arrays.residual + start : nullptr,
                         has_residual ? columns : 0);
    const float average = is_centred ? arrays.mean[row] : 0.0F;
    const float inverse = arrays.rstd[row];
    const auto unit = [&](int k, std::int64_t i, int n) {
      auto u = x.group(k, i, n);
      for (float& v : u.v) v = (v - average) * inverse;
      return u;
    };
    const auto scaled = [&](int k, std::int64_t i, int n) {
      auto g = dy.group(k, i, n);
      const auto scale = gamma.group(k, i, n);
      for (int j = 0; j < size; ++j) g.v[j] *= scale.v[j];
      return g;
    };
    float mean_g = 0;
    if constexpr (is_centred) mean_g = sum_of_row<Packs, size>(columns, room, scaled) / width;
    const float mean_gu = sum_of_row<Packs, size>(columns, room,
                                                  [&](int k, std::int64_t i, int n) {
                                                    auto g = scaled(k, i, n);
                                                    const auto u = unit(k, i, n);
                                                    for (int j = 0; j < size; ++j) g.v[j] *= u.v[j];
                                                    return g;
                                                  }) /
                          width;
    Packs::each(columns, [&](int k, std::int64_t i, int n) {
      auto g = scaled(k, i, n);
      const auto u = unit(k, i, n);
      if constexpr (held > 0) {
        const auto slope = dy.group(k, i, n);
        for (int j = 0; j < size; ++j) {
          dgamma[k].v[j] += slope.v[j] * u.v[j];
          if constexpr (is_centred) dbeta[k].v[j] += slope.v[j];
        }
      }
      for (int j = 0; j < size; ++j) g.v[j] = (g.v[j] - mean_g - u.v[j] * mean_gu) * inverse;
      if (has_residual) {
        const auto other = residual.group(k, i, n);
        for (int j = 0; j < size; ++j) g.v[j] += other.v[j];
      }
      store(arrays.dx + start + i, g, n);
    });
  }
  if constexpr (held > 0) {
    Packs::each(columns, [&](int k, std::int64_t i, int n) {
      float* part = partials + blockIdx.x * columns + i;
      store(part, dgamma[k], n);
      if constexpr (is_centred) store(part + gridDim.x * columns, dbeta[k], n);
    });
  }
}

// body(the packs that a thread holds, as a type).
template <typename T, typename Body>
void by_width(std::int64_t columns, const Body& body) {
  const std::int64_t each = blocks_for(columns, block_threads);
  if (each <= 4 && group_of<T> <= 4) {
    body(std::integral_constant<int, 4 / group_of<T>>());
  } else if (each <= 8) {
    body(std::integral_constant<int, 8 / group_of<T>>());
  } else if (each <= 16) {
    body(std::integral_constant<int, 16 / group_of<T>>());
  } else if (each <= max_held) {
    body(std::integral_constant<int, max_held / group_of<T>>());
  } else {
    body(std::integral_constant<int, 0>());
  }
}

template <bool is_centred, typename T>
void norm(gpuStream_t stream, const char* name, std::int64_t rows, std::int64_t columns, const T* x,
          const T* gamma, const T* beta, T* y, float* mean, float* rstd) {
  if (rows <= 0) return;
  by_width<T>(columns, [&](auto held) {
    launch(stream, name, grid(rows), norm_kernel<T, held.value, is_centred>, columns, x, gamma,
           beta, y, mean, rstd);
  });
}

std::int64_t rows_a_norm_chunk(std::int64_t rows) {
  const std::int64_t each = blocks_for(rows, max_norm_chunks);
  return each < min_norm_rows ? min_norm_rows : each;
}

template <bool is_centred, typename T>
void norm_backward(gpuStream_t stream, const char* name, std::int64_t rows, std::int64_t columns,
                   const NormBackward<T>& arrays, float* dgamma, float* dbeta, float* partials) {
  by_width<T>(columns, [&](auto held) {
    // Before dx, which may overwrite their inputs.
    if (held.value == 0) {
      add_norm_columns(stream, name, rows, columns, arrays.dy, arrays.x, arrays.mean, arrays.rstd,
                       dgamma, dbeta, partials);
    }
    const std::int64_t each = held.value > 0 ? rows_a_norm_chunk(rows) : 1;
    const std::int64_t chunks = blocks_for(rows, each);
    if (chunks > 0) {
      launch(stream, name, grid(chunks), norm_backward_kernel<T, held.value, is_centred>, rows,
             columns, each, arrays, partials);
    }
    if (held.value > 0) {
      add_chunks(stream, name, columns, chunks, partials, false, {{dgamma, dbeta}});
    }
  });
}

}  // namespace

std::int64_t norm_partials(std::int64_t rows, std::int64_t columns) {
  const std::int64_t held = 2 * blocks_for(rows, rows_a_norm_chunk(rows)) * columns;
  const std::int64_t others = column_partials(rows, columns);
  return held > others ? held : others;
}

template <typename T>
void layer_norm(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x,
                const T* gamma, const T* beta, T* y, float* mean, float* rstd) {
  norm<true>(stream, "layer_norm", rows, columns, x, gamma, beta, y, mean, rstd);
}

template <typename T>
void layer_norm_backward(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* dy,
                         const T* x, const T* gamma, const float* mean, const float* rstd,
                         const T* residual, T* dx, float* dgamma, float* dbeta, float* partials) {
  norm_backward<true>(stream, "layer_norm_backward", rows, columns,
                      NormBackward<T>{dy, x, gamma, mean, rstd, residual, dx}, dgamma, dbeta,
                      partials);
}

template <typename T>
void rms_norm(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x,
              const T* gamma, T* y, float* rstd) {
  norm<false>(stream, "rms_norm", rows, columns, x, gamma, static_cast<const T*>(nullptr), y,
              nullptr, rstd);
}

template <typename T>
void rms_norm_backward(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* dy,
                       const T* x, const T* gamma, const float* rstd, const T* residual, T* dx,
                       float* dgamma, float* partials) {
  norm_backward<false>(stream, "rms_norm_backward", rows, columns,
                       NormBackward<T>{dy, x, gamma, nullptr, rstd, residual, dx}, dgamma, nullptr,
                       partials);
}

template decltype(layer_norm<float>) layer_norm<float>;
template decltype(layer_norm<gpuBfloat16>) layer_norm<gpuBfloat16>;
template decltype(layer_norm_backward<float>) layer_norm_backward<float>;
template decltype(layer_norm_backward<gpuBfloat16>) layer_norm_backward<gpuBfloat16>;
template decltype(rms_norm<float>) rms_norm<float>;
template decltype(rms_norm<gpuBfloat16>) rms_norm<gpuBfloat16>;
template decltype(rms_norm_backward<float>) rms_norm_backward<float>;
template decltype(rms_norm_backward<gpuBfloat16>) rms_norm_backward<gpuBfloat16>;

}  // namespace pipesim::exec::kernels
