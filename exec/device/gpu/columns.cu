// Sums over the rows of a matrix.
//
// The rows are cut into chunks, by their number alone. A block adds up a chunk
// of a tile of columns: 8 lines of 32 threads take every eighth row, 4 bytes a
// thread and so 128 a line, and meet in a tree. A second kernel adds up the
// chunks in their order.
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/kernels.h"

namespace pipesim::exec::kernels {
namespace {

constexpr int line_threads = 32;
constexpr int lines = block_threads / line_threads;
constexpr std::int64_t most_chunks = 64;
constexpr std::int64_t least_rows = 64;  // in a chunk

std::int64_t rows_a_chunk(std::int64_t rows) {
  const std::int64_t each = blocks_for(rows, most_chunks);
  return each < least_rows ? least_rows : each;
}

// What a thread adds up: of n adjacent columns from `at` on, in a row.
template <typename T>
constexpr int columns_of = 4 / static_cast<int>(sizeof(T));

template <typename T>
struct Plain {
  static constexpr int sums = 1;
  using Sum = float[sums][columns_of<T>];
  const T* x;
  __device__ void operator()(std::int64_t row, std::int64_t at, int n, Sum& sum) const {
    (void)row;
    const auto terms = load<columns_of<T>>(x + at, n);
    for (int j = 0; j < columns_of<T>; ++j) sum[0][j] += terms.v[j];
  }
};

// dgamma and dbeta.
template <typename T>
struct NormTerms {
  static constexpr int sums = 2;
  using Sum = float[sums][columns_of<T>];
  const T* dy;
  const T* x;
  const float* mean;
  const float* rstd;
  __device__ void operator()(std::int64_t row, std::int64_t at, int n, Sum& sum) const {
    const auto d = load<columns_of<T>>(dy + at, n);
    const auto value = load<columns_of<T>>(x + at, n);
    for (int j = 0; j < columns_of<T>; ++j) {
      sum[0][j] += d.v[j] * ((value.v[j] - mean[row]) * rstd[row]);
      sum[1][j] += d.v[j];
    }
  }
};

template <typename T>
struct RmsNormTerms {
  static constexpr int sums = 1;
  using Sum = float[sums][columns_of<T>];
  const T* dy;
  const T* x;
  const float* rstd;
  __device__ void operator()(std::int64_t row, std::int64_t at, int n, Sum& sum) const {
    const auto d = load<columns_of<T>>(dy + at, n);
    const auto value = load<columns_of<T>>(x + at, n);
    for (int j = 0; j < columns_of<T>; ++j) sum[0][j] += d.v[j] * (value.v[j] * rstd[row]);
  }
};

// partials[sum][chunk][column]
template <typename T, template <typename> class Terms>
__global__ void chunk_sums_kernel(std::int64_t rows, std::int64_t columns, std::int64_t each,
                                  Terms<T> terms, float* partials) {
  constexpr int sums = Terms<T>::sums;
  constexpr int width = columns_of<T>;
  __shared__ float room[sums][lines][line_threads * width];
  const int line = static_cast<int>(threadIdx.x) / line_threads;
  const int lane = static_cast<int>(threadIdx.x) % line_threads * width;
  const std::int64_t column = std::int64_t{blockIdx.x} * line_threads * width + lane;
  const std::int64_t chunk = blockIdx.y;
  const std::int64_t end = (chunk + 1) * each < rows ? (chunk + 1) * each : rows;
  const int n = group_size<width>(column, columns);
  float sum[sums][width] = {};
  if (n > 0) {
    for (std::int64_t row = chunk * each + line; row < end; row += lines) {
      terms(row, row * columns + column, n, sum);
    }
  }
  for (int s = 0; s < sums; ++s) {
    for (int j = 0; j < width; ++j) room[s][line][lane + j] = sum[s][j];
  }
  __syncthreads();
  for (int half = lines / 2; half > 0; half /= 2) {
    if (line < half) {
      for (int s = 0; s < sums; ++s) {
        for (int j = 0; j < width; ++j) {
          room[s][line][lane + j] += room[s][line + half][lane + j];
        }
      }
    }
    __syncthreads();
  }
  if (line != 0) return;
  for (int s = 0; s < sums; ++s) {
    for (int j = 0; j < width; ++j) {
      if (j < n) {
        partials[(s * std::int64_t{gridDim.y} + chunk) * columns + column + j] =
            room[s][0][lane + j];
      }
    }
  }
}

__global__ void add_chunks_kernel(std::int64_t columns, std::int64_t chunks, const float* partials,
                                  bool accumulate, float* sums) {
  const std::int64_t column = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (column >= columns) return;
  float sum = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partials[chunk * columns + column];
  sums[column] = accumulate ? sums[column] + sum : sum;
}

template <typename T, template <typename> class Terms>
void sum_chunks(gpuStream_t stream, const char* name, std::int64_t rows, std::int64_t columns,
                const Terms<T>& terms, float* partials, bool accumulate, float* const* sums) {
  if (columns <= 0) return;
  const std::int64_t each = rows_a_chunk(rows);
  const std::int64_t chunks = blocks_for(rows, each);
  if (chunks > 0) {
    const dim3 blocks(grid(blocks_for(columns, line_threads * columns_of<T>)), grid(chunks));
    launch(stream, name, blocks, chunk_sums_kernel<T, Terms>, rows, columns, each, terms, partials);
  }
  for (int s = 0; s < Terms<T>::sums; ++s) {
    launch(stream, name, grid(blocks_for(columns, block_threads)), add_chunks_kernel, columns,
           chunks, partials + s * chunks * columns, accumulate, sums[s]);
  }
}

}  // namespace

std::int64_t column_partials(std::int64_t rows, std::int64_t columns) {
  return 2 * blocks_for(rows, rows_a_chunk(rows)) * columns;
}

template <typename T>
void add_column_sums(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x,
                     float* sums, float* partials) {
  float* const all[] = {sums};
  sum_chunks(stream, "add_column_sums", rows, columns, Plain<T>{x}, partials, true, all);
}

template <typename T>
void layer_norm_weight_gradients(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                                 const T* dy, const T* x, const float* mean, const float* rstd,
                                 float* dgamma, float* dbeta, float* partials) {
  float* const all[] = {dgamma, dbeta};
  sum_chunks(stream, "layer_norm_backward", rows, columns, NormTerms<T>{dy, x, mean, rstd},
             partials, false, all);
}

template <typename T>
void rms_norm_weight_gradient(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                              const T* dy, const T* x, const float* rstd, float* dgamma,
                              float* partials) {
  float* const all[] = {dgamma};
  sum_chunks(stream, "rms_norm_backward", rows, columns, RmsNormTerms<T>{dy, x, rstd}, partials,
             false, all);
}

template decltype(add_column_sums<float>) add_column_sums<float>;
template decltype(add_column_sums<gpuBfloat16>) add_column_sums<gpuBfloat16>;
template decltype(layer_norm_weight_gradients<float>) layer_norm_weight_gradients<float>;
template decltype(layer_norm_weight_gradients<gpuBfloat16>)
    layer_norm_weight_gradients<gpuBfloat16>;
template decltype(rms_norm_weight_gradient<float>) rms_norm_weight_gradient<float>;
template decltype(rms_norm_weight_gradient<gpuBfloat16>) rms_norm_weight_gradient<gpuBfloat16>;

}  // namespace pipesim::exec::kernels
