// The built-in GEMM. A block makes a tile of c of 64 x 64, each
// thread 4 x 4 of it, from strips of both matrices that are 16 deep.
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/product.h"

namespace pipesim::exec::kernels {
namespace {

constexpr int tile = 64;
constexpr int depth = 16;
constexpr int side = 4;  // of a thread's part
static_assert(tile * depth == 4 * block_threads, "a thread loads four of each strip");
static_assert(tile * tile == side * side * block_threads, "and makes its part of c");

// Four more than a row of a strip, so that writing a column meets other banks.
using Strip = float[depth][tile + 4];

// strip[p][line] = the matrix at (first_line + line, first_depth + p), 0 outside.
// Lines are rows of op(a) or columns of op(b). In memory either a line's elements are adjacent, or
// the lines are.
template <bool lines_side_by_side, typename T>
__device__ inline void load_strip(const T* x, std::int64_t stride, std::int64_t first_line,
                                  std::int64_t lines, std::int64_t first_depth, std::int64_t depths,
                                  Strip& strip) {
  const int thread = static_cast<int>(threadIdx.x);
  if (lines_side_by_side) {
    const int p = thread / (tile / 4);
    const int line = thread % (tile / 4) * 4;
    const std::int64_t at = first_line + line;
    Four four = {{0, 0, 0, 0}};
    if (first_depth + p < depths && at < lines) {
      four = load<4>(x + (first_depth + p) * stride + at, group_size(at, lines));
    }
    for (int j = 0; j < 4; ++j) strip[p][line + j] = four.v[j];
  } else {
    const int line = thread / (depth / 4);
    const int p = thread % (depth / 4) * 4;
    const std::int64_t at = first_depth + p;
    Four four = {{0, 0, 0, 0}};
    if (first_line + line < lines && at < depths) {
      four = load<4>(x + (first_line + line) * stride + at, group_size(at, depths));
    }
    for (int j = 0; j < 4; ++j) strip[p + j][line] = four.v[j];
  }
}

// Computes the columns from `start` on.
template <typename In, typename Out, bool transpose_a, bool transpose_b>
__global__ void __launch_bounds__(block_threads)
    product_kernel(GpuProduct product, std::int64_t start) {
  __shared__ Strip a;
  __shared__ Strip b;
  const In* from_a = static_cast<const In*>(product.a.data);
  const In* from_b = static_cast<const In*>(product.b.data);
  Out* c = static_cast<Out*>(product.c.data);
  const std::int64_t first_row = std::int64_t{blockIdx.x} * tile;
  const std::int64_t first_column = start + std::int64_t{blockIdx.y} * tile;
  const int row = static_cast<int>(threadIdx.x) / (tile / side) * side;
  const int column = static_cast<int>(threadIdx.x) % (tile / side) * side;
  float sum[side][side] = {};
  for (std::int64_t p = 0; p < product.k; p += depth) {
    load_strip<transpose_a>(from_a, product.lda, first_row, product.m, p, product.k, a);
    load_strip<!transpose_b>(from_b, product.ldb, first_column, product.n, p, product.k, b);
    __syncthreads();
#pragma unroll
    for (int q = 0; q < depth; ++q) {
      float left[side];
      float right[side];
      for (int i = 0; i < side; ++i) left[i] = a[q][row + i];
      for (int j = 0; j < side; ++j) right[j] = b[q][column + j];
      for (int i = 0; i < side; ++i) {
        for (int j = 0; j < side; ++j) sum[i][j] += left[i] * right[j];
      }
    }
    __syncthreads();
  }
  const std::int64_t j = first_column + column;
  if (j >= product.n) return;
  const int n = group_size(j, product.n);
  for (int i = 0; i < side; ++i) {
    if (first_row + row + i >= product.m) break;
    Out* to = c + (first_row + row + i) * product.ldc + j;
    Four four = {{sum[i][0], sum[i][1], sum[i][2], sum[i][3]}};
    if (product.accumulate) {
      const Four before = load<4>(to, n);
      for (int part = 0; part < 4; ++part) four.v[part] += before.v[part];
    }
    store(to, four, n);
  }
}

constexpr std::int64_t max_blocks = 65535;  // in a grid's second dimension

// Launches pieces that fit into a grid.
template <typename In, typename Out, bool transpose_a, bool transpose_b>
void start(gpuStream_t stream, const GpuProduct& product) {
  constexpr std::int64_t columns = max_blocks * tile;
  if (product.m <= 0) return;
  for (std::int64_t j = 0; j < product.n; j += columns) {
    const std::int64_t n = product.n - j < columns ? product.n - j : columns;
    const dim3 blocks(grid(blocks_for(product.m, tile)), grid(blocks_for(n, tile)));
    launch(stream, "matrix_product", blocks, product_kernel<In, Out, transpose_a, transpose_b>,
           product, j);
  }
}

template <typename In, typename Out>
void start(gpuStream_t stream, const GpuProduct& product) {
  switch (product.transpose) {
    case Transpose::a: start<In, Out, true, false>(stream, product); break;
    case Transpose::b: start<In, Out, false, true>(stream, product); break;
    default: start<In, Out, false, false>(stream, product);
  }
}

}  // namespace

void product(gpuStream_t stream, const GpuProduct& product) {
  if (product.a.type == Number::float32) {
    start<float, float>(stream, product);
  } else if (product.c.type == Number::float32) {
    start<gpuBfloat16, float>(stream, product);
  } else {
    start<gpuBfloat16, gpuBfloat16>(stream, product);
  }
}

}  // namespace pipesim::exec::kernels
