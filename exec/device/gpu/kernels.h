// The kernels of the GPU, as functions that start them on a stream.
//
// They mean what the operators of device.h mean, on the device's memory. Each
// sum has an order of its own that depends on sizes alone: no atomics, trees in
// shared memory, and no assumption about how many threads run in step. The
// order does not depend on how arrays are aligned. A kernel that could not be
// started is a work error.
#pragma once

#include <cstdint>

#include "exec/device/device.h"
#include "exec/device/gpu/gpu.h"

namespace pipesim::exec::kernels {

void fill(gpuStream_t stream, std::int64_t count, float* x, float value);
void fill_normal(gpuStream_t stream, std::int64_t count, float* x, const RandomKey& key,
                 float deviation);
void add(gpuStream_t stream, std::int64_t count, const float* a, const float* b, float* y);
// `probability` above 0.
void dropout(gpuStream_t stream, std::int64_t count, const float* x, const Dropout& dropout,
             float* y);
void add_bias(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const float* bias,
              float* x);
void bias_gelu(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const float* bias,
               float* x, float* y);
void gelu_backward(gpuStream_t stream, std::int64_t count, const float* x, const float* dy,
                   float* dx);
void bias_dropout_add(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                      const float* bias, const float* x, const float* residual,
                      const Dropout& dropout, float* y);
void adamw(gpuStream_t stream, std::int64_t count, const AdamStep& step, const float* gradients,
           float* weights, float* first, float* second);

// The sum, in partials[0]; room for so many.
inline constexpr std::int64_t square_partials = 1024;
void sum_of_squares(gpuStream_t stream, std::int64_t count, const float* x, double* partials);

// Sums over rows; `partials` is room for column_partials() floats.
std::int64_t column_partials(std::int64_t rows, std::int64_t columns);
void add_column_sums(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const float* x,
                     float* sums, float* partials);
void layer_norm(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const float* x,
                const float* gamma, const float* beta, float* y, float* mean, float* rstd);
void layer_norm_input_gradient(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                               const float* dy, const float* x, const float* gamma,
                               const float* mean, const float* rstd, const float* residual,
                               float* dx);
void layer_norm_weight_gradients(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                                 const float* dy, const float* x, const float* mean,
                                 const float* rstd, float* dgamma, float* dbeta, float* partials);

// Each row of x[heads x sequence x sequence], up to its place on the diagonal,
// becomes the softmax of it times `scale`; the rest 0.
void causal_softmax(gpuStream_t stream, std::int64_t heads, std::int64_t sequence, float scale,
                    float* x);
// p becomes the gradient by what was scaled, from dp, the gradient by p.
void causal_softmax_backward(gpuStream_t stream, std::int64_t heads, std::int64_t sequence,
                             float scale, const float* dp, float* p);

void embed(gpuStream_t stream, std::int64_t rows, std::int64_t columns, std::int64_t sequence,
           const std::int32_t* tokens, const float* table, const float* positions, float* y);
// `next` is room for 2 x rows.
void embed_backward(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                    std::int64_t sequence, const std::int32_t* tokens, const float* dy,
                    float* dtable, float* dpositions, std::int32_t* next);

void cross_entropy(gpuStream_t stream, std::int64_t rows, std::int64_t classes,
                   const std::int32_t* targets, float* x, float* losses);
void cross_entropy_backward(gpuStream_t stream, std::int64_t rows, std::int64_t classes,
                            const std::int32_t* targets, float* x);

}  // namespace pipesim::exec::kernels
