// Sums over the rows of a matrix.
//
// The rows are cut into chunks, by their number alone. A block adds up a chunk
// of 32 columns: 8 lines of threads take every eighth row and meet in a tree. A
// second kernel adds up the chunks in their order.
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/kernels.h"

namespace pipesim::exec::kernels {
namespace {

constexpr int tile_columns = 32;
constexpr int lines = block_threads / tile_columns;
constexpr std::int64_t most_chunks = 64;
constexpr std::int64_t least_rows = 64;  // in a chunk

std::int64_t rows_a_chunk(std::int64_t rows) {
  const std::int64_t each = blocks_for(rows, most_chunks);
  return each < least_rows ? least_rows : each;
}

struct Plain {
  static constexpr int sums = 1;
  const float* x;
  __device__ void operator()(std::int64_t row, std::int64_t at, float* sum) const {
    (void)row;
    sum[0] += x[at];
  }
};

// dgamma and dbeta.
struct NormTerms {
  static constexpr int sums = 2;
  const float* dy;
  const float* x;
  const float* mean;
  const float* rstd;
  __device__ void operator()(std::int64_t row, std::int64_t at, float* sum) const {
    const float d = dy[at];
    sum[0] += d * ((x[at] - mean[row]) * rstd[row]);
    sum[1] += d;
  }
};

// partials[sum][chunk][column]
template <typename Terms>
__global__ void chunk_sums_kernel(std::int64_t rows, std::int64_t columns, std::int64_t each,
                                  Terms terms, float* partials) {
  __shared__ float room[Terms::sums][lines][tile_columns];
  const int lane = static_cast<int>(threadIdx.x) % tile_columns;
  const int line = static_cast<int>(threadIdx.x) / tile_columns;
  const std::int64_t column = std::int64_t{blockIdx.x} * tile_columns + lane;
  const std::int64_t chunk = blockIdx.y;
  const std::int64_t end = (chunk + 1) * each < rows ? (chunk + 1) * each : rows;
  float sum[Terms::sums] = {};
  if (column < columns) {
    for (std::int64_t row = chunk * each + line; row < end; row += lines) {
      terms(row, row * columns + column, sum);
    }
  }
  for (int s = 0; s < Terms::sums; ++s) room[s][line][lane] = sum[s];
  __syncthreads();
  for (int half = lines / 2; half > 0; half /= 2) {
    if (line < half) {
      for (int s = 0; s < Terms::sums; ++s) room[s][line][lane] += room[s][line + half][lane];
    }
    __syncthreads();
  }
  if (line == 0 && column < columns) {
    for (int s = 0; s < Terms::sums; ++s) {
      partials[(s * std::int64_t{gridDim.y} + chunk) * columns + column] = room[s][0][lane];
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

template <typename Terms>
void sum_chunks(gpuStream_t stream, const char* name, std::int64_t rows, std::int64_t columns,
                const Terms& terms, float* partials, bool accumulate, float* const* sums) {
  if (columns <= 0) return;
  const std::int64_t each = rows_a_chunk(rows);
  const std::int64_t chunks = blocks_for(rows, each);
  if (chunks > 0) {
    const dim3 blocks(grid(blocks_for(columns, tile_columns)), grid(chunks));
    launch(stream, name, blocks, chunk_sums_kernel<Terms>, rows, columns, each, terms, partials);
  }
  for (int s = 0; s < Terms::sums; ++s) {
    launch(stream, name, grid(blocks_for(columns, block_threads)), add_chunks_kernel, columns,
           chunks, partials + s * chunks * columns, accumulate, sums[s]);
  }
}

}  // namespace

std::int64_t column_partials(std::int64_t rows, std::int64_t columns) {
  return 2 * blocks_for(rows, rows_a_chunk(rows)) * columns;
}

void add_column_sums(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const float* x,
                     float* sums, float* partials) {
  float* const all[] = {sums};
  sum_chunks(stream, "add_column_sums", rows, columns, Plain{x}, partials, true, all);
}

void layer_norm_weight_gradients(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                                 const float* dy, const float* x, const float* mean,
                                 const float* rstd, float* dgamma, float* dbeta, float* partials) {
  float* const all[] = {dgamma, dbeta};
  sum_chunks(stream, "layer_norm_backward", rows, columns, NormTerms{dy, x, mean, rstd}, partials,
             false, all);
}

}  // namespace pipesim::exec::kernels
