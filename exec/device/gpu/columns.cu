// Sums over the rows of a matrix.
//
// The rows are cut into chunks, by their number alone. A block adds up a chunk
// of a tile of columns: 8 lines of 32 threads take every eighth row, 16 bytes a
// thread, and meet in a tree. A second kernel adds up the chunks: 8 lines take
// every eighth chunk of 32 columns, and meet likewise.
#include "exec/device/gpu/column_sums.h"
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/kernels.h"

namespace pipesim::exec::kernels {
namespace {

constexpr int line_threads = 32;
constexpr int lines = block_threads / line_threads;
constexpr int at_once = 4;  // pending loads of a thread
constexpr std::int64_t max_chunks = 64;
constexpr std::int64_t min_rows = 64;  // in a chunk

std::int64_t rows_a_chunk(std::int64_t rows) {
  const std::int64_t each = blocks_for(rows, max_chunks);
  return each < min_rows ? min_rows : each;
}

// The terms that a thread adds, for the columns of a pack in a row. Loaded first, so that several
// rows are in flight.
template <typename T>
struct Plain {
  static constexpr int sums = 1;
  struct Loaded {
    Pack<T> x;
  };
  const T* x;
  __device__ Loaded load(std::int64_t at, int n) const { return {load_pack(x + at, n)}; }
  __device__ void add(std::int64_t /*row*/, const Loaded& loaded, Group<group_of<T>>* sum) const {
    const auto terms = loaded.x.unpacked();
    for (int j = 0; j < group_of<T>; ++j) sum[0].v[j] += terms.v[j];
  }
};

// dgamma and dbeta, or with is_centred false dgamma alone.
template <typename T, bool is_centred>
struct NormTerms {
  static constexpr int sums = is_centred ? 2 : 1;
  struct Loaded {
    Pack<T> dy;
    Pack<T> x;
  };
  const T* dy;
  const T* x;
  const float* mean;
  const float* rstd;
  __device__ Loaded load(std::int64_t at, int n) const {
    return {load_pack(dy + at, n), load_pack(x + at, n)};
  }
  __device__ void add(std::int64_t row, const Loaded& loaded, Group<group_of<T>>* sum) const {
    const auto slope = loaded.dy.unpacked();
    const auto value = loaded.x.unpacked();
    const float average = is_centred ? mean[row] : 0.0F;
    for (int j = 0; j < group_of<T>; ++j) {
      sum[0].v[j] += slope.v[j] * ((value.v[j] - average) * rstd[row]);
      if constexpr (is_centred) sum[1].v[j] += slope.v[j];
    }
  }
};

// partials[sum][chunk][column]
template <int width, typename Terms>
__global__ void chunk_sums_kernel(std::int64_t rows, std::int64_t columns, std::int64_t each,
                                  Terms terms, float* partials) {
  constexpr int sums = Terms::sums;
  __shared__ float room[sums][lines][line_threads * width];
  const int line = static_cast<int>(threadIdx.x) / line_threads;
  const int lane = static_cast<int>(threadIdx.x) % line_threads * width;
  const std::int64_t column = std::int64_t{blockIdx.x} * line_threads * width + lane;
  const std::int64_t chunk = blockIdx.y;
  const std::int64_t end = (chunk + 1) * each < rows ? (chunk + 1) * each : rows;
  const int n = column < columns ? group_size<width>(column, columns) : 0;
  Group<width> sum[sums] = {};
  if (n > 0) {
    for (std::int64_t row = chunk * each + line; row < end; row += at_once * lines) {
      typename Terms::Loaded loaded[at_once];
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        const std::int64_t own = row + k * lines;
        if (own < end) loaded[k] = terms.load(own * columns + column, n);
      }
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        const std::int64_t own = row + k * lines;
        if (own < end) terms.add(own, loaded[k], sum);
      }
    }
  }
  for (int s = 0; s < sums; ++s) {
    for (int j = 0; j < width; ++j) room[s][line][lane + j] = sum[s].v[j];
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
  if (line != 0 || n == 0) return;
  for (int s = 0; s < sums; ++s) {
    float* to = partials + (s * std::int64_t{gridDim.y} + chunk) * columns + column;
    for (int j = 0; j < width; ++j) {
      if (j < n) to[j] = room[s][0][lane + j];
    }
  }
}

__global__ void add_chunks_kernel(std::int64_t columns, std::int64_t chunks, const float* partials,
                                  bool accumulate, SumArrays to) {
  __shared__ float room[lines][line_threads];
  const int line = static_cast<int>(threadIdx.x) / line_threads;
  const int lane = static_cast<int>(threadIdx.x) % line_threads;
  const std::int64_t column = std::int64_t{blockIdx.x} * line_threads + lane;
  partials += std::int64_t{blockIdx.y} * chunks * columns + column;
  float sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t chunk = line; chunk < chunks; chunk += lines) {
      sum += partials[chunk * columns];
    }
  }
  room[line][lane] = sum;
  __syncthreads();
  if (line != 0 || column >= columns) return;
  float all[lines];
  for (int i = 0; i < lines; ++i) all[i] = room[i][lane];
  float& result = to.sums[blockIdx.y][column];
  result = (accumulate ? result : 0.0F) + tree<lines>(all, Add());
}

template <int width, typename Terms>
void sum_chunks(gpuStream_t stream, const char* name, std::int64_t rows, std::int64_t columns,
                const Terms& terms, float* partials, bool accumulate, const SumArrays& to) {
  if (columns <= 0) return;
  const std::int64_t each = rows_a_chunk(rows);
  const std::int64_t chunks = blocks_for(rows, each);
  if (chunks > 0) {
    const dim3 blocks(grid(blocks_for(columns, line_threads * width)), grid(chunks));
    launch(stream, name, blocks, chunk_sums_kernel<width, Terms>, rows, columns, each, terms,
           partials);
  }
  add_chunks(stream, name, columns, chunks, partials, accumulate, to);
}

}  // namespace

void add_chunks(gpuStream_t stream, const char* name, std::int64_t columns, std::int64_t chunks,
                const float* partials, bool accumulate, const SumArrays& to) {
  if (columns <= 0) return;
  const dim3 blocks(grid(blocks_for(columns, line_threads)), to.sums[1] != nullptr ? 2 : 1);
  launch(stream, name, blocks, add_chunks_kernel, columns, chunks, partials, accumulate, to);
}

std::int64_t column_partials(std::int64_t rows, std::int64_t columns) {
  return 2 * blocks_for(rows, rows_a_chunk(rows)) * columns;
}

template <typename T>
void add_column_sums(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x,
                     float* sums, float* partials) {
  sum_chunks<group_of<T>>(stream, "add_column_sums", rows, columns, Plain<T>{x}, partials, true,
                          {{sums, nullptr}});
}

template <typename T>
void add_norm_columns(gpuStream_t stream, const char* name, std::int64_t rows, std::int64_t columns,
                      const T* dy, const T* x, const float* mean, const float* rstd, float* dgamma,
                      float* dbeta, float* partials) {
  const SumArrays to = {{dgamma, dbeta}};
  if (mean != nullptr) {
    sum_chunks<group_of<T>>(stream, name, rows, columns, NormTerms<T, true>{dy, x, mean, rstd},
                            partials, false, to);
  } else {
    sum_chunks<group_of<T>>(stream, name, rows, columns, NormTerms<T, false>{dy, x, mean, rstd},
                            partials, false, to);
  }
}

template decltype(add_column_sums<float>) add_column_sums<float>;
template decltype(add_column_sums<gpuBfloat16>) add_column_sums<gpuBfloat16>;
template decltype(add_norm_columns<float>) add_norm_columns<float>;
template decltype(add_norm_columns<gpuBfloat16>) add_norm_columns<gpuBfloat16>;

}  // namespace pipesim::exec::kernels
