// The softmax of causal attention, and back through it: a block a row.
#include "exec/device/gpu/kernels.h"
#include "exec/device/gpu/softmax.h"

namespace pipesim::exec::kernels {
namespace {

__global__ void causal_softmax_kernel(std::int64_t sequence, float scale, float* x) {
  __shared__ float room[block_threads];
  const std::int64_t row = column_of(blockIdx.x, sequence);
  x += std::int64_t{blockIdx.x} * sequence;
  const std::int64_t count = row + 1;
  softmax(count, scale, x, room);
  for (std::int64_t i = count + threadIdx.x; i < sequence; i += block_threads) x[i] = 0;
}

__global__ void causal_softmax_backward_kernel(std::int64_t sequence, float scale, const float* dp,
                                               float* p) {
  __shared__ float room[block_threads];
  const std::int64_t count = column_of(blockIdx.x, sequence) + 1;
  dp += std::int64_t{blockIdx.x} * sequence;
  p += std::int64_t{blockIdx.x} * sequence;
  const float dot = sum_of_row(count, room, [&](std::int64_t i, int n) {
    Four product = load(dp + i, n);
    const Four other = load(p + i, n);
    for (int j = 0; j < 4; ++j) product.v[j] *= other.v[j];
    return product;
  });
  each_group_of_row(count, [&](std::int64_t i, int n) {
    Four gradient = load(p + i, n);
    const Four by = load(dp + i, n);
    for (int j = 0; j < 4; ++j) gradient.v[j] *= (by.v[j] - dot) * scale;
    store(p + i, gradient, n);
  });
}

}  // namespace

void causal_softmax(gpuStream_t stream, std::int64_t heads, std::int64_t sequence, float scale,
                    float* x) {
  if (heads * sequence <= 0) return;
  launch(stream, "attention", grid(heads * sequence), causal_softmax_kernel, sequence, scale, x);
}

void causal_softmax_backward(gpuStream_t stream, std::int64_t heads, std::int64_t sequence,
                             float scale, const float* dp, float* p) {
  if (heads * sequence <= 0) return;
  launch(stream, "attention_backward", grid(heads * sequence), causal_softmax_backward_kernel,
         sequence, scale, dp, p);
}

}  // namespace pipesim::exec::kernels
