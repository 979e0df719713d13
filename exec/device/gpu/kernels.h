// The kernels of the GPU, as functions that start them on a stream.
//
// They implement the operators of device.h on the device's memory. Each
// sum has a fixed order that depends only on sizes: no atomics, trees in
// shared memory, and no assumption about how many threads run in step. The
// order does not depend on how arrays are aligned. A failed launch
// is a work error. T is float or gpuBfloat16; what is computed is float32
// until it is stored.
#pragma once

#include <cstdint>

#include "exec/device/device.h"
#include "exec/device/gpu/bfloat16.h"
#include "exec/device/gpu/gpu.h"

namespace pipesim::exec::kernels {

template <typename T>
void fill(gpuStream_t stream, std::int64_t count, T* x, float value);
void fill_normal(gpuStream_t stream, std::int64_t count, float* x, const RandomKey& key,
                 float deviation);
// Converts from one type to the other.
template <typename From, typename To>
void convert(gpuStream_t stream, std::int64_t count, const From* x, To* y);
template <typename T>
void add(gpuStream_t stream, std::int64_t count, const T* a, const T* b, T* y);
// `probability` above 0.
template <typename T>
void dropout(gpuStream_t stream, std::int64_t count, const Dropout& dropout, const T* x, T* y);
template <typename T>
void add_bias(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* bias, T* x);
template <typename T>
void bias_gelu(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* bias, T* x,
               T* y);
template <typename T>
void gelu_backward(gpuStream_t stream, std::int64_t count, const T* x, const T* dy, T* dx);
template <typename T>
void gated_silu(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x, T* y);
template <typename T>
void gated_silu_backward(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x,
                         const T* dy, T* dx);
// `angles` is room for sequence x head_size numbers.
template <typename T>
void rotate(gpuStream_t stream, const AttentionShape& shape, float base, bool back, float* angles,
            T* qkv);
template <typename T>
void bias_dropout_add(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                      const Dropout& dropout, const T* bias, const T* x, const T* residual, T* y);
// `rounded` may be null.
template <typename T>
void adamw(gpuStream_t stream, std::int64_t count, const AdamStep& step, const float* gradients,
           float* weights, float* first, float* second, T* rounded);

// The sum, in partials[0]; room for square_partials is needed.
inline constexpr std::int64_t square_partials = 1024;
void sum_of_squares(gpuStream_t stream, std::int64_t count, const float* x, double* partials);

// Sums over rows; `partials` is room for column_partials() floats.
std::int64_t column_partials(std::int64_t rows, std::int64_t columns);
template <typename T>
void add_column_sums(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x,
                     float* sums, float* partials);
template <typename T>
void layer_norm(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x,
                const T* gamma, const T* beta, T* y, float* mean, float* rstd);
template <typename T>
void rms_norm(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x,
              const T* gamma, T* y, float* rstd);
// `partials` is room for norm_partials() floats; `residual` may be null.
std::int64_t norm_partials(std::int64_t rows, std::int64_t columns);
template <typename T>
void layer_norm_backward(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* dy,
                         const T* x, const T* gamma, const float* mean, const float* rstd,
                         const T* residual, T* dx, float* dgamma, float* dbeta, float* partials);
template <typename T>
void rms_norm_backward(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* dy,
                       const T* x, const T* gamma, const float* rstd, const T* residual, T* dx,
                       float* dgamma, float* partials);

// Causal attention without a matrix of scores: keeps log_sums[batch x heads x sequence], the
// logarithms of the rows' sums of exponentials. Throws an input error for heads of more than 256
// numbers.
template <typename T>
void attention(gpuStream_t stream, const AttentionShape& shape, const T* qkv, float* log_sums,
               T* y);
// dots[batch x heads x sequence]: a head's rows of y times those of dy.
template <typename T>
void attention_dots(gpuStream_t stream, const AttentionShape& shape, const T* y, const T* dy,
                    float* dots);
template <typename T>
void attention_backward(gpuStream_t stream, const AttentionShape& shape, const T* qkv,
                        float* log_sums, float* dots, const T* dy, T* dqkv);
// The same for bfloat16 by tensor cores, and heads of at most so many numbers, if the GPU and the
// build support them.
inline constexpr int tensor_head_size = 128;
bool has_tensor_cores(int gpu);
void tensor_attention(gpuStream_t stream, const AttentionShape& shape, const gpuBfloat16* qkv,
                      float* log_sums, gpuBfloat16* y);
void tensor_attention_backward(gpuStream_t stream, const AttentionShape& shape,
                               const gpuBfloat16* qkv, float* log_sums, float* dots,
                               const gpuBfloat16* dy, gpuBfloat16* dqkv);

template <typename T>
void embed(gpuStream_t stream, std::int64_t rows, std::int64_t columns, std::int64_t sequence,
           const std::int32_t* tokens, const T* table, const T* positions, T* y);
// `next` is room for 2 x rows.
template <typename T>
void embed_backward(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                    std::int64_t sequence, const std::int32_t* tokens, const T* dy, float* dtable,
                    float* dpositions, std::int32_t* next);

template <typename T>
void cross_entropy(gpuStream_t stream, std::int64_t rows, std::int64_t classes,
                   const std::int32_t* targets, T* x, float* losses);
template <typename T>
void cross_entropy_of_part(gpuStream_t stream, std::int64_t rows, std::int64_t classes,
                           const std::int32_t* targets, const T* x, float* part);
template <typename T>
void join_cross_entropy(gpuStream_t stream, std::int64_t rows, std::int64_t classes, int ranks,
                        const float* parts, T* x, float* losses);
template <typename T>
void cross_entropy_backward(gpuStream_t stream, std::int64_t rows, std::int64_t classes,
                            const std::int32_t* targets, T* x);

}  // namespace pipesim::exec::kernels
