// The embedding, and its gradient in the order of rows.
//
// Rows of one token form a list: each knows the next row of its token, and the
// first of them that it is the first. The first one's block adds up its whole
// list, so that no two blocks write to one row of the table. The lists are found
// by comparing all pairs of tokens: for 8,192 rows 67 million comparisons, which
// a GPU does within the time of a small kernel; the sums cost rows x columns.
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/kernels.h"

namespace pipesim::exec::kernels {
namespace {

template <typename T>
struct Embed {
  std::int64_t columns;
  std::int64_t sequence;
  const std::int32_t* tokens;
  const T* table;
  const T* positions;
  T* y;

  __device__ float at(std::int64_t i) const {
    const std::int64_t row = i / columns;
    const std::int64_t column = i - row * columns;
    const float value = tokens[row] < 0 ? 0.0F : float{table[tokens[row] * columns + column]};
    if (positions == nullptr) return value;
    return value + static_cast<float>(positions[column_of(row, sequence) * columns + column]);
  }
  __device__ void operator()(std::int64_t i, int n) const {
    const std::int64_t row = i / columns;
    const std::int64_t column = i - row * columns;
    Group<group_of<T>> sum = {};
    if (column + n <= columns) {
      if (tokens[row] >= 0) sum = load(table + tokens[row] * columns + column, n);
      if (positions != nullptr) {
        const auto position = load(positions + column_of(row, sequence) * columns + column, n);
        for (int j = 0; j < group_of<T>; ++j) sum.v[j] += position.v[j];
      }
    } else {
      for (int j = 0; j < group_of<T>; ++j) {
        if (j < n) sum.v[j] = at(i + j);
      }
    }
    store(y + i, sum, n);
  }
};

// next[row]: the next row of the same token, or -1; first[row]: whether none comes before. A block
// has as many rows as a line has threads, and each of its lines searches another part of the
// tokens.
constexpr int link_rows = 32;
constexpr int link_lines = block_threads / link_rows;

__global__ void link_kernel(std::int64_t rows, const std::int32_t* tokens, std::int32_t* next,
                            std::int32_t* first) {
  constexpr std::int32_t none = 0x7fffffff;
  __shared__ std::int32_t tile[block_threads];
  // The least row of the token, and the least one after its own.
  __shared__ std::int32_t least[2][link_lines][link_rows];
  const int line = static_cast<int>(threadIdx.x) / link_rows;
  const int lane = static_cast<int>(threadIdx.x) % link_rows;
  const std::int64_t row = std::int64_t{blockIdx.x} * link_rows + lane;
  const std::int32_t own = row < rows ? tokens[row] : -1;
  std::int32_t least_of_all = none;
  std::int32_t least_behind = none;
  for (std::int64_t start = 0; start < rows; start += block_threads) {
    const std::int64_t other = start + threadIdx.x;
    tile[threadIdx.x] = other < rows ? tokens[other] : -2;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < link_rows; ++j) {
      const auto at = static_cast<std::int32_t>(start) + line * link_rows + j;
      const bool is_same = tile[line * link_rows + j] == own;
      if (is_same && at < least_of_all) least_of_all = at;
      if (is_same && at > row && at < least_behind) least_behind = at;
    }
    __syncthreads();
  }
  least[0][line][lane] = least_of_all;
  least[1][line][lane] = least_behind;
  __syncthreads();
  if (line != 0 || row >= rows) return;
  for (int i = 1; i < link_lines; ++i) {
    if (least[0][i][lane] < least_of_all) least_of_all = least[0][i][lane];
    if (least[1][i][lane] < least_behind) least_behind = least[1][i][lane];
  }
  next[row] = least_behind == none ? -1 : least_behind;
  first[row] = least_of_all == row ? 1 : 0;
}

template <typename T>
__global__ void table_kernel(std::int64_t columns, const std::int32_t* tokens,
                             const std::int32_t* next, const std::int32_t* first, const T* dy,
                             float* dtable) {
  constexpr int size = group_of<T>;
  const std::int64_t row = blockIdx.x;
  if (first[row] == 0 || tokens[row] < 0) return;
  float* sums = dtable + tokens[row] * columns;
  each_group_of_row<size>(columns, [&](std::int64_t i, int n) {
    auto sum = load<size>(sums + i, n);
    for (std::int64_t at = row; at >= 0; at = next[at]) {
      const auto term = load(dy + at * columns + i, n);
      for (int j = 0; j < size; ++j) sum.v[j] += term.v[j];
    }
    store(sums + i, sum, n);
  });
}

// dpositions, for as many positions as there are rows.
template <typename T>
struct Positions {
  static constexpr int size = group_of<T>;
  std::int64_t count;  // of all rows
  std::int64_t cycle;  // sequence x columns
  const T* dy;
  float* dpositions;
  __device__ void operator()(std::int64_t i, int n) const {
    auto sum = load<size>(dpositions + i, n);
    for (std::int64_t at = i; at < count; at += cycle) {
      const int there = group_size<size>(at, count);
      const auto term = load(dy + at, there < n ? there : n);
      for (int j = 0; j < size; ++j) {
        if (at + j < count) sum.v[j] += term.v[j];
      }
    }
    store(dpositions + i, sum, n);
  }
};

}  // namespace

template <typename T>
void embed(gpuStream_t stream, std::int64_t rows, std::int64_t columns, std::int64_t sequence,
           const std::int32_t* tokens, const T* table, const T* positions, T* y) {
  each_group<group_of<T>>(stream, "embed", rows * columns,
                          Embed<T>{columns, sequence, tokens, table, positions, y});
}

template <typename T>
void embed_backward(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                    std::int64_t sequence, const std::int32_t* tokens, const T* dy, float* dtable,
                    float* dpositions, std::int32_t* next) {
  if (rows <= 0) return;
  const char* name = "embed_backward";
  std::int32_t* first = next + rows;
  launch(stream, name, grid(blocks_for(rows, link_rows)), link_kernel, rows, tokens, next, first);
  launch(stream, name, grid(rows), table_kernel<T>, columns, tokens, next, first, dy, dtable);
  if (dpositions == nullptr) return;
  const std::int64_t places = rows < sequence ? rows : sequence;
  each_group<group_of<T>>(stream, name, places * columns,
                          Positions<T>{rows * columns, sequence * columns, dy, dpositions});
}

template decltype(embed<float>) embed<float>;
template decltype(embed<gpuBfloat16>) embed<gpuBfloat16>;
template decltype(embed_backward<float>) embed_backward<float>;
template decltype(embed_backward<gpuBfloat16>) embed_backward<gpuBfloat16>;

}  // namespace pipesim::exec::kernels
