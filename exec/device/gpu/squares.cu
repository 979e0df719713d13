// The sum of squares, in double: each block adds every n-th group of four, and one block adds their
// sums.
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/kernels.h"

namespace pipesim::exec::kernels {
namespace {

__global__ void squares_kernel(std::int64_t count, const float* x, double* partials) {
  __shared__ double room[block_threads];
  const std::int64_t stride = std::int64_t{4} * block_threads * gridDim.x;
  double sum[4] = {};
  for (std::int64_t i = 4 * (std::int64_t{blockIdx.x} * block_threads + threadIdx.x); i < count;
       i += stride) {
    const Four four = load(x + i, group_size(i, count));
    for (int j = 0; j < 4; ++j) sum[j] += static_cast<double>(four.v[j]) * four.v[j];
  }
  const double all = combined((sum[0] + sum[1]) + (sum[2] + sum[3]), room, Add());
  if (threadIdx.x == 0) partials[blockIdx.x] = all;
}

__global__ void add_partials_kernel(std::int64_t count, double* partials) {
  __shared__ double room[block_threads];
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += block_threads) sum += partials[i];
  const double all = combined(sum, room, Add());
  if (threadIdx.x == 0) partials[0] = all;
}

}  // namespace

void sum_of_squares(gpuStream_t stream, std::int64_t count, const float* x, double* partials) {
  std::int64_t blocks = blocks_for(count, 16 * block_threads);
  if (blocks < 1) blocks = 1;
  if (blocks > square_partials) blocks = square_partials;
  launch(stream, "sum_of_squares", grid(blocks), squares_kernel, count, x, partials);
  launch(stream, "sum_of_squares", 1, add_partials_kernel, blocks, partials);
}

}  // namespace pipesim::exec::kernels
