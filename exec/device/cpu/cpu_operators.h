// The operators of device.h in float32, on the CPU's own memory.
//
// cpu_operators.cpp is compiled once for each instruction set. If several copies emit
// the same inline function or template, the linker keeps any one for all
// callers, perhaps one that this machine cannot run. So
// those files emit only internal symbols, and code that needs the standard
// library is behind this class, in cpu_memory.cpp.
#pragma once

#include <cstdint>

#include "exec/device/device.h"

namespace pipesim::exec {

class FloatOperators {
 public:
  FloatOperators() = default;
  FloatOperators(const FloatOperators&) = delete;
  FloatOperators& operator=(const FloatOperators&) = delete;
  virtual ~FloatOperators();

  // Aligned to 64 bytes; throws if there is none left.
  static void* allocate(std::int64_t bytes);
  static void release(void* memory);

  virtual void fill(std::int64_t count, float* x, float value) = 0;
  virtual void fill_normal(std::int64_t count, float* x, const RandomKey& key, float deviation) = 0;
  virtual void add(std::int64_t count, const float* a, const float* b, float* y) = 0;
  virtual void copy(std::int64_t count, const float* x, float* y) = 0;
  virtual double sum_of_squares(std::int64_t count, const float* x) = 0;
  virtual void dropout(std::int64_t count, const float* x, const Dropout& dropout, float* y) = 0;
  virtual void matrix_product(Transpose transpose, std::int64_t m, std::int64_t n, std::int64_t k,
                              const float* a, const float* b, float* c, bool accumulate) = 0;
  virtual void add_bias(std::int64_t rows, std::int64_t columns, const float* bias, float* x) = 0;
  virtual void add_column_sums(std::int64_t rows, std::int64_t columns, const float* x,
                               float* sums) = 0;
  virtual void bias_gelu(std::int64_t rows, std::int64_t columns, const float* bias, float* x,
                         float* y) = 0;
  virtual void gelu_backward(std::int64_t count, const float* x, const float* dy, float* dx) = 0;
  virtual void gated_silu(std::int64_t rows, std::int64_t columns, const float* x, float* y) = 0;
  virtual void gated_silu_backward(std::int64_t rows, std::int64_t columns, const float* x,
                                   const float* dy, float* dx) = 0;
  virtual void bias_dropout_add(std::int64_t rows, std::int64_t columns, const float* bias,
                                const float* x, const float* residual, const Dropout& dropout,
                                float* y) = 0;
  virtual void layer_norm(std::int64_t rows, std::int64_t columns, const float* x,
                          const float* gamma, const float* beta, float* y, float* mean,
                          float* rstd) = 0;
  virtual void layer_norm_backward(std::int64_t rows, std::int64_t columns, const float* dy,
                                   const float* x, const float* gamma, const float* mean,
                                   const float* rstd, const float* residual, float* dx,
                                   float* dgamma, float* dbeta) = 0;
  virtual void rms_norm(std::int64_t rows, std::int64_t columns, const float* x, const float* gamma,
                        float* y, float* rstd) = 0;
  virtual void rms_norm_backward(std::int64_t rows, std::int64_t columns, const float* dy,
                                 const float* x, const float* gamma, const float* rstd,
                                 const float* residual, float* dx, float* dgamma) = 0;
  virtual void rotate(const AttentionShape& shape, float base, bool back, float* qkv) = 0;
  // The state: probabilities[batch x heads x sequence x sequence], 0 above the diagonal,
  // overwritten by the backward; in the linear form two numbers for each row of each head.
  virtual void attention(const AttentionShape& shape, const float* qkv, float* state, float* y) = 0;
  virtual void attention_backward(const AttentionShape& shape, const float* qkv, float* state,
                                  const float* y, const float* dy, float* dqkv) = 0;
  virtual void embed(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
                     const std::int32_t* tokens, const float* table, const float* positions,
                     float* y) = 0;
  virtual void embed_backward(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
                              const std::int32_t* tokens, const float* dy, float* dtable,
                              float* dpositions) = 0;
  virtual void cross_entropy(std::int64_t rows, std::int64_t classes, const std::int32_t* targets,
                             float* x, float* losses) = 0;
  virtual void cross_entropy_of_part(std::int64_t rows, std::int64_t classes,
                                     const std::int32_t* targets, const float* x, float* part) = 0;
  virtual void join_cross_entropy(std::int64_t rows, std::int64_t classes, int ranks,
                                  const float* parts, float* x, float* losses) = 0;
  virtual void cross_entropy_backward(std::int64_t rows, std::int64_t classes,
                                      const std::int32_t* targets, float* x) = 0;
  virtual void adamw(std::int64_t count, const AdamStep& step, const float* gradients,
                     float* weights, float* first, float* second) = 0;

 protected:
  // Room for so many floats, valid until the next call; contents are lost.
  float* scratch(std::int64_t floats);

 private:
  float* scratch_ = nullptr;
  std::int64_t scratch_floats_ = 0;
};

FloatOperators* make_cpu_operators_v4(bool own_products);
FloatOperators* make_cpu_operators_v3(bool own_products);
FloatOperators* make_cpu_operators_baseline(bool own_products);

}  // namespace pipesim::exec
