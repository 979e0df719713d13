// The loss: softmax and cross-entropy, a block a row.
#include "exec/device/gpu/kernels.h"
#include "exec/device/gpu/softmax.h"

namespace pipesim::exec::kernels {
namespace {

template <typename T>
__global__ void cross_entropy_kernel(std::int64_t classes, const std::int32_t* targets, T* x,
                                     float* losses) {
  __shared__ float room[block_threads];
  const std::int64_t row = blockIdx.x;
  x += row * classes;
  const double target = float{x[targets[row]]};
  __syncthreads();  // before any thread overwrites it
  const Normaliser norm = softmax(classes, 1, x, room);
  if (threadIdx.x == 0) {
    losses[row] = static_cast<float>(log(static_cast<double>(norm.sum)) + (norm.largest - target));
  }
}

template <typename T>
__global__ void cross_entropy_backward_kernel(std::int64_t rows, std::int64_t classes,
                                              const std::int32_t* targets, T* x) {
  const std::int64_t row = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (row >= rows) return;
  T& target = x[row * classes + targets[row]];
  target = static_cast<T>(target - 1.0F);
}

}  // namespace

template <typename T>
void cross_entropy(gpuStream_t stream, std::int64_t rows, std::int64_t classes,
                   const std::int32_t* targets, T* x, float* losses) {
  if (rows <= 0) return;
  launch(stream, "cross_entropy", grid(rows), cross_entropy_kernel<T>, classes, targets, x, losses);
}

template <typename T>
void cross_entropy_backward(gpuStream_t stream, std::int64_t rows, std::int64_t classes,
                            const std::int32_t* targets, T* x) {
  if (rows <= 0) return;
  launch(stream, "cross_entropy_backward", grid(blocks_for(rows, block_threads)),
         cross_entropy_backward_kernel<T>, rows, classes, targets, x);
}

template decltype(cross_entropy<float>) cross_entropy<float>;
template decltype(cross_entropy<gpuBfloat16>) cross_entropy<gpuBfloat16>;
template decltype(cross_entropy_backward<float>) cross_entropy_backward<float>;
template decltype(cross_entropy_backward<gpuBfloat16>) cross_entropy_backward<gpuBfloat16>;

}  // namespace pipesim::exec::kernels
