// The loss: softmax and cross-entropy, a block a row.
#include "exec/device/gpu/kernels.h"
#include "exec/device/gpu/softmax.h"

namespace pipesim::exec::kernels {
namespace {

__global__ void cross_entropy_kernel(std::int64_t classes, const std::int32_t* targets, float* x,
                                     float* losses) {
  __shared__ float room[block_threads];
  const std::int64_t row = blockIdx.x;
  x += row * classes;
  const double target = x[targets[row]];
  __syncthreads();  // before any thread overwrites it
  const Normaliser norm = softmax(classes, 1, x, room);
  if (threadIdx.x == 0) {
    losses[row] = static_cast<float>(log(static_cast<double>(norm.sum)) + (norm.largest - target));
  }
}

__global__ void cross_entropy_backward_kernel(std::int64_t rows, std::int64_t classes,
                                              const std::int32_t* targets, float* x) {
  const std::int64_t row = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (row < rows) x[row * classes + targets[row]] -= 1;
}

}  // namespace

void cross_entropy(gpuStream_t stream, std::int64_t rows, std::int64_t classes,
                   const std::int32_t* targets, float* x, float* losses) {
  if (rows <= 0) return;
  cross_entropy_kernel<<<grid(rows), block_threads, 0, stream>>>(classes, targets, x, losses);
  started("run the kernel of cross_entropy");
}

void cross_entropy_backward(gpuStream_t stream, std::int64_t rows, std::int64_t classes,
                            const std::int32_t* targets, float* x) {
  if (rows <= 0) return;
  cross_entropy_backward_kernel<<<grid(blocks_for(rows, block_threads)), block_threads, 0,
                                  stream>>>(rows, classes, targets, x);
  started("run the kernel of cross_entropy_backward");
}

}  // namespace pipesim::exec::kernels
