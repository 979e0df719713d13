// What computes: memory and the operators that layers are made of.
//
// One device belongs to one rank, and only that rank's thread calls it.
// Operators run in the order of the calls; on a device of its own pace they
// may return before they have run, and finish() waits for all. The same call
// with the same values gives the same bits, whatever ran before: layers rely
// on it. All numbers are float32, matrices row-major; "rows x columns" counts
// elements. Pointers are the device's memory unless a parameter says host.
#pragma once

#include <cstdint>
#include <string>

#include "exec/device/random.h"

namespace pipesim::exec {

// Each element is kept with probability 1 - `probability` and then divided by
// it, else 0: kept where its random word, element i of `key`, is at least
// probability x 2^32. A probability of 0 leaves everything as it is.
struct Dropout {
  RandomKey key;
  float probability = 0;
};

struct AttentionShape {
  std::int64_t batch = 1;     // sequences
  std::int64_t sequence = 1;  // positions in each
  std::int64_t heads = 1;
  std::int64_t head_size = 1;

  std::int64_t rows() const { return batch * sequence; }
  std::int64_t hidden() const { return heads * head_size; }
};

// op(A) is A, or its transpose; A as stored then has k rows, B n.
enum class Transpose : std::uint8_t { none, a, b };

// One step of AdamW (Loshchilov and Hutter, 2019).
struct AdamStep {
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0;
  float correction1 = 1;     // 1 - beta1^t
  float correction2 = 1;     // 1 - beta2^t
  float gradient_scale = 1;  // what clipping multiplies the gradients by
};

class Device {
 public:
  virtual ~Device() = default;

  // For people: what it is and what does its matrix products.
  virtual std::string description() const = 0;

  // ---- Memory, aligned to 64 bytes; throws a work error where there is none left.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* memory) = 0;
  virtual void upload(void* to, const void* from_host, std::int64_t bytes) = 0;
  virtual void download(void* to_host, const void* from, std::int64_t bytes) = 0;
  // Whether the host may read and write it in place, once all has run: then
  // transports do.
  virtual bool host_reaches_memory() const = 0;
  // Waits until everything that was asked for has run.
  virtual void finish() = 0;

  // ---- Elements
  virtual void fill(std::int64_t count, float* x, float value) = 0;
  // Normal with mean 0; element i depends on (key, i) alone.
  virtual void fill_normal(std::int64_t count, float* x, const RandomKey& key, float deviation) = 0;
  // y = a + b; y may be a or b.
  virtual void add(std::int64_t count, const float* a, const float* b, float* y) = 0;
  virtual void copy(std::int64_t count, const float* x, float* y) = 0;
  // The sum of x^2, accumulated in double. Waits for the result.
  virtual double sum_of_squares(std::int64_t count, const float* x) = 0;
  // y = dropout(x); y may be x.
  virtual void dropout(std::int64_t count, const float* x, const Dropout& dropout, float* y) = 0;

  // ---- Matrices
  // c[m x n] = op(a)[m x k] op(b)[k x n], added to what c holds where asked.
  // All three are dense.
  virtual void matrix_product(Transpose transpose, std::int64_t m, std::int64_t n, std::int64_t k,
                              const float* a, const float* b, float* c, bool accumulate) = 0;
  // x += bias, to every row.
  virtual void add_bias(std::int64_t rows, std::int64_t columns, const float* bias, float* x) = 0;
  // sums += the sum of x's rows.
  virtual void add_column_sums(std::int64_t rows, std::int64_t columns, const float* x,
                               float* sums) = 0;

  // ---- Parts of a layer
  // x += bias; y = gelu(x), by tanh(sqrt(2/pi) (x + 0.044715 x^3)).
  virtual void bias_gelu(std::int64_t rows, std::int64_t columns, const float* bias, float* x,
                         float* y) = 0;
  // dx = dy gelu'(x); dx may be dy.
  virtual void gelu_backward(std::int64_t count, const float* x, const float* dy, float* dx) = 0;
  // y = residual + dropout(x + bias); y may be x.
  virtual void bias_dropout_add(std::int64_t rows, std::int64_t columns, const float* bias,
                                const float* x, const float* residual, const Dropout& dropout,
                                float* y) = 0;
  // y = (x - mean) rstd gamma + beta, row by row; epsilon 1e-5.
  virtual void layer_norm(std::int64_t rows, std::int64_t columns, const float* x,
                          const float* gamma, const float* beta, float* y, float* mean,
                          float* rstd) = 0;
  // dx = residual + the gradient by x, where residual is not null (it may be
  // dx). dgamma and dbeta, of all rows, are overwritten. dx must not be dy.
  virtual void layer_norm_backward(std::int64_t rows, std::int64_t columns, const float* dy,
                                   const float* x, const float* gamma, const float* mean,
                                   const float* rstd, const float* residual, float* dx,
                                   float* dgamma, float* dbeta) = 0;
  // Causal attention, scaled by 1/sqrt(head_size). qkv[rows x 3 hidden]: q, k
  // and v of all heads, head by head within each; probabilities[batch x heads x
  // sequence x sequence], 0 above the diagonal; y[rows x hidden].
  virtual void attention(const AttentionShape& shape, const float* qkv, float* probabilities,
                         float* y) = 0;
  // `probabilities` is used up.
  virtual void attention_backward(const AttentionShape& shape, const float* qkv,
                                  float* probabilities, const float* dy, float* dqkv) = 0;
  // y[row] = table[tokens[row]] + positions[row % sequence].
  virtual void embed(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
                     const std::int32_t* tokens, const float* table, const float* positions,
                     float* y) = 0;
  // dtable and dpositions += dy's rows, in the order of rows.
  virtual void embed_backward(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
                              const std::int32_t* tokens, const float* dy, float* dtable,
                              float* dpositions) = 0;
  // x[rows x classes] becomes its softmax, row by row;
  // losses[row] = -log softmax(x)[target].
  virtual void cross_entropy(std::int64_t rows, std::int64_t classes, const std::int32_t* targets,
                             float* x, float* losses) = 0;
  // The softmax becomes the gradient of the sum of losses: 1 less at the target.
  virtual void cross_entropy_backward(std::int64_t rows, std::int64_t classes,
                                      const std::int32_t* targets, float* x) = 0;

  // weights, first and second moments step by the gradients, which stay.
  virtual void adamw(std::int64_t count, const AdamStep& step, const float* gradients,
                     float* weights, float* first, float* second) = 0;
};

}  // namespace pipesim::exec
