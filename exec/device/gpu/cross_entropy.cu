// The loss: softmax and cross-entropy, one block per row.
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
  const Normaliser norm = softmax(classes, x, room);
  if (threadIdx.x == 0) {
    losses[row] = static_cast<float>(log(static_cast<double>(norm.sum)) + (norm.largest - target));
  }
}

template <typename T>
__global__ void cross_entropy_of_part_kernel(std::int64_t rows, std::int64_t classes,
                                             const std::int32_t* targets, const T* x, float* part) {
  __shared__ float room[block_threads];
  const std::int64_t row = blockIdx.x;
  x += row * classes;
  const std::int32_t target = targets[row];
  const Normaliser norm = normaliser(classes, x, room);
  if (threadIdx.x == 0) {
    part[row] = norm.largest;
    part[rows + row] = norm.sum;
    part[2 * rows + row] = target < 0 ? 0.0F : float{x[target]};
  }
}

template <typename T>
__global__ void join_cross_entropy_kernel(std::int64_t rows, std::int64_t classes, int ranks,
                                          const float* parts, T* x, float* losses) {
  const std::int64_t row = blockIdx.x;
  const auto at = [&](int rank, std::int64_t which) -> double {
    return parts[(cross_entropy_part * rank + which) * rows + row];
  };
  double most = at(0, 0);
  for (int rank = 1; rank < ranks; ++rank) most = at(rank, 0) > most ? at(rank, 0) : most;
  double total = 0;
  double target = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    total += at(rank, 1) * exp(at(rank, 0) - most);
    target += at(rank, 2);
  }
  const auto largest = static_cast<float>(most);
  const auto inverse = static_cast<float>(1 / total);
  T* own_x = x + row * classes;
  each_pack_of_row(own_x, classes, [&](std::int64_t i, int n, Group<group_of<T>> group) {
    for (float& v : group.v) v = expf(v - largest) * inverse;
    store(own_x + i, group, n);
  });
  if (threadIdx.x == 0) losses[row] = static_cast<float>(log(total) + (most - target));
}

template <typename T>
__global__ void cross_entropy_backward_kernel(std::int64_t rows, std::int64_t classes,
                                              const std::int32_t* targets, T* x) {
  const std::int64_t row = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (row >= rows || targets[row] < 0) return;
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
void cross_entropy_of_part(gpuStream_t stream, std::int64_t rows, std::int64_t classes,
                           const std::int32_t* targets, const T* x, float* part) {
  if (rows <= 0) return;
  launch(stream, "cross_entropy_of_part", grid(rows), cross_entropy_of_part_kernel<T>, rows,
         classes, targets, x, part);
}

template <typename T>
void join_cross_entropy(gpuStream_t stream, std::int64_t rows, std::int64_t classes, int ranks,
                        const float* parts, T* x, float* losses) {
  if (rows <= 0) return;
  launch(stream, "join_cross_entropy", grid(rows), join_cross_entropy_kernel<T>, rows, classes,
         ranks, parts, x, losses);
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
template decltype(cross_entropy_of_part<float>) cross_entropy_of_part<float>;
template decltype(cross_entropy_of_part<gpuBfloat16>) cross_entropy_of_part<gpuBfloat16>;
template decltype(join_cross_entropy<float>) join_cross_entropy<float>;
template decltype(join_cross_entropy<gpuBfloat16>) join_cross_entropy<gpuBfloat16>;
template decltype(cross_entropy_backward<float>) cross_entropy_backward<float>;
template decltype(cross_entropy_backward<gpuBfloat16>) cross_entropy_backward<gpuBfloat16>;

}  // namespace pipesim::exec::kernels
