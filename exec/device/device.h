// A compute device: memory and the operators that layers consist of.
//
// One device belongs to one rank, and only that rank's thread calls it.
// Operators run in the order of the calls; on an asynchronous device they
// may return before they have run, and finish() waits for all. The same call
// with the same values always gives the same bits: layers rely
// on it. Matrices are row-major; "rows x columns" counts elements. Pointers and
// arrays are the device's memory unless a parameter says host. The arrays of
// one call are of one type, which is the model's precision; sums
// over microbatches, and the optimizer's states, are always float32.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "exec/device/random.h"

namespace pipesim::exec {

// The storage type of a number.
enum class Number : std::uint8_t { float32, bfloat16 };

constexpr std::int64_t bytes_of(Number type) { return type == Number::float32 ? 4 : 2; }

// Contiguous numbers; owns nothing.
struct Array {
  Array() = default;
  Array(float* numbers) : data(numbers) {}  // NOLINT: what it is is plain
  Array(void* numbers, Number number) : data(numbers), type(number) {}

  void* data = nullptr;
  Number type = Number::float32;
};
struct ConstArray {
  ConstArray() = default;
  ConstArray(const float* numbers) : data(numbers) {}                     // NOLINT
  ConstArray(const Array& array) : data(array.data), type(array.type) {}  // NOLINT
  ConstArray(const void* numbers, Number number) : data(numbers), type(number) {}

  const void* data = nullptr;
  Number type = Number::float32;
};

// An instant of a device's work: when everything submitted before has run. Valid until
// Device::forget_marks().
using Mark = std::int64_t;

// Each element is kept with probability 1 - `probability` and then divided by it, else 0: kept if
// its random word, element i of `key`, is at least probability x 2^32. A probability of 0 changes
// nothing.
struct Dropout {
  RandomKey key;
  float probability = 0;
};

struct AttentionShape {
  std::int64_t batch = 1;     // sequences
  std::int64_t sequence = 1;  // positions in each
  std::int64_t heads = 1;
  std::int64_t head_size = 1;
  std::int64_t group = 1;  // neighbouring heads that share keys and values
  // Keeps no matrix of scores; the backward recomputes it. GPUs never keep one.
  bool linear = false;

  // Always inlined: the linker could keep a copy for other processors (cpu/cpu_operators.h).
  [[gnu::always_inline]] std::int64_t rows() const { return batch * sequence; }
  [[gnu::always_inline]] std::int64_t kv_heads() const { return heads / group; }
  [[gnu::always_inline]] std::int64_t hidden() const { return heads * head_size; }
  [[gnu::always_inline]] std::int64_t kv_size() const { return kv_heads() * head_size; }
  [[gnu::always_inline]] std::int64_t qkv_size() const { return hidden() + 2 * kv_size(); }
};

// Numbers per row in the result of Device::cross_entropy_of_part().
inline constexpr std::int64_t cross_entropy_part = 3;

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
  float gradient_scale = 1;  // factor on gradients from clipping
};

// What a device has, whether or not it is free.
struct DeviceCapacity {
  std::int64_t memory_bytes = 0;
  std::int64_t multiprocessors = 1;
};

class Device {
 public:
  virtual ~Device() = default;

  // This thread calls it from now on, while the previous one waits.
  virtual void enter_thread() {}

  // For display: the device, and what its GEMMs use.
  virtual std::string description() const = 0;
  virtual DeviceCapacity capacity() const = 0;

  // ---- Memory, aligned to 64 bytes; throws a work error if there is none left.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void release(void* memory) = 0;
  // The most allocated on the GPU at once, including workspace and memory kept for reuse; 0 for
  // host memory.
  virtual std::int64_t most_taken_bytes() const = 0;
  virtual void upload(void* to, const void* from_host, std::int64_t bytes) = 0;
  virtual void download(void* to_host, const void* from, std::int64_t bytes) = 0;
  // Whether the host may read and write it in place, once everything has run: then transports do.
  virtual bool host_reaches_memory() const = 0;
  // Waits until everything submitted has run.
  virtual void finish() = 0;

  // ---- Instants
  virtual Mark mark() = 0;
  // Never waits.
  virtual bool has_passed(Mark mark) = 0;
  // In nanoseconds of this host's CLOCK_MONOTONIC; waits for the mark.
  virtual std::int64_t time_of(Mark mark) = 0;
  // Later calls run after the mark.
  virtual void follow(Mark mark) = 0;
  // Waits until everything has run, and invalidates all marks.
  virtual void forget_marks() = 0;
  // Names the work submitted until end_range(), for profilers. May be nested.
  virtual void start_range(const char* name) = 0;
  virtual void end_range() = 0;

  // ---- Messages, by copies that run concurrently with the operators
  // Host memory for messages.
  virtual void* allocate_host(std::int64_t bytes) = 0;
  // Waits for pending copies.
  virtual void release_host(void* memory) = 0;
  // Starts a copy of `from` once everything submitted so far has run; the mark is its end.
  virtual Mark start_download(void* to_host, const void* from, std::int64_t bytes) = 0;
  // Starts a copy that does not begin before `after`.
  virtual Mark start_upload(void* to, const void* from_host, std::int64_t bytes, Mark after) = 0;

  // ---- Elements
  virtual void fill(std::int64_t count, Array x, float value) = 0;
  // Normal with mean 0; element i depends only on (key, i).
  virtual void fill_normal(std::int64_t count, float* x, const RandomKey& key, float deviation) = 0;
  // y = a + b; y may be a or b.
  virtual void add(std::int64_t count, ConstArray a, ConstArray b, Array y) = 0;
  // Their types may differ: to bfloat16 it rounds to the nearest, ties to even.
  virtual void copy(std::int64_t count, ConstArray x, Array y) = 0;
  // *sum = the sum of x^2, accumulated in double.
  virtual void sum_of_squares(std::int64_t count, const float* x, double* sum) = 0;
  // y = dropout(x); y may be x.
  virtual void dropout(std::int64_t count, ConstArray x, const Dropout& dropout, Array y) = 0;

  // ---- Matrices
  // c[m x n] = op(a)[m x k] op(b)[k x n], added to c if `accumulate`. All three are dense; c may be
  // float32 for any type of a and b. Sums are float32; before adding to a c of bfloat16 a library
  // may round them.
  virtual void matrix_product(Transpose transpose, std::int64_t m, std::int64_t n, std::int64_t k,
                              ConstArray a, ConstArray b, Array c, bool accumulate) = 0;
  // x += bias, to every row.
  virtual void add_bias(std::int64_t rows, std::int64_t columns, ConstArray bias, Array x) = 0;
  // sums += the sum of x's rows.
  virtual void add_column_sums(std::int64_t rows, std::int64_t columns, ConstArray x,
                               float* sums) = 0;

  // ---- Parts of a layer
  // x += bias, if it is not null; y = gelu(x), by tanh(sqrt(2/pi) (x + 0.044715 x^3)).
  virtual void bias_gelu(std::int64_t rows, std::int64_t columns, ConstArray bias, Array x,
                         Array y) = 0;
  // dx = dy gelu'(x); dx may be dy.
  virtual void gelu_backward(std::int64_t count, ConstArray x, ConstArray dy, Array dx) = 0;
  // y = silu(gate) up, with silu(x) = x / (1 + e^-x). Gates come first in a row of x[rows x 2
  // columns].
  virtual void gated_silu(std::int64_t rows, std::int64_t columns, ConstArray x, Array y) = 0;
  // dx may be x.
  virtual void gated_silu_backward(std::int64_t rows, std::int64_t columns, ConstArray x,
                                   ConstArray dy, Array dx) = 0;
  // y = residual + dropout(x + bias); y may be x; bias may be null.
  virtual void bias_dropout_add(std::int64_t rows, std::int64_t columns, ConstArray bias,
                                ConstArray x, ConstArray residual, const Dropout& dropout,
                                Array y) = 0;
  // y = (x - mean) rstd gamma + beta, row by row; epsilon 1e-5.
  virtual void layer_norm(std::int64_t rows, std::int64_t columns, ConstArray x, ConstArray gamma,
                          ConstArray beta, Array y, float* mean, float* rstd) = 0;
  // dx = the gradient with respect to x, plus residual unless that is null (it may be dx). dgamma
  // and dbeta, of all rows, are overwritten. dx must not be dy.
  virtual void layer_norm_backward(std::int64_t rows, std::int64_t columns, ConstArray dy,
                                   ConstArray x, ConstArray gamma, const float* mean,
                                   const float* rstd, ConstArray residual, Array dx, float* dgamma,
                                   float* dbeta) = 0;
  // y = x rstd gamma with rstd = 1 / sqrt(mean(x^2) + 1e-5), row by row (Zhang and Sennrich, 2019).
  virtual void rms_norm(std::int64_t rows, std::int64_t columns, ConstArray x, ConstArray gamma,
                        Array y, float* rstd) = 0;
  // As for layer_norm_backward().
  virtual void rms_norm_backward(std::int64_t rows, std::int64_t columns, ConstArray dy,
                                 ConstArray x, ConstArray gamma, const float* rstd,
                                 ConstArray residual, Array dx, float* dgamma) = 0;
  // Rotates every head's q and k in qkv, in place, by angles that grow with the position p (Su et
  // al., 2021): numbers i and i + head_size / 2, as a point, by p base^(-2 i / head_size); with
  // `back` in the other direction. head_size must be even.
  virtual void rotate(const AttentionShape& shape, float base, bool back, Array qkv) = 0;
  // How many numbers of state attention() leaves for attention_backward().
  virtual std::int64_t attention_state(const AttentionShape& shape) const = 0;
  // Causal attention, scaled by 1/sqrt(head_size). qkv[rows x qkv_size]: q of all heads, then k,
  // then v of all groups, head by head within each; y[rows x hidden].
  virtual void attention(const AttentionShape& shape, ConstArray qkv, float* state, Array y) = 0;
  // Overwrites `state`; y is attention()'s.
  virtual void attention_backward(const AttentionShape& shape, ConstArray qkv, float* state,
                                  ConstArray y, ConstArray dy, Array dqkv) = 0;
  // y[row] = table[tokens[row]] + positions[row % sequence]; positions may be null. A negative
  // token has a row of zeros.
  virtual void embed(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
                     const std::int32_t* tokens, ConstArray table, ConstArray positions,
                     Array y) = 0;
  // dtable and, unless null, dpositions += dy's rows, in the order of rows; for a negative token
  // only dpositions.
  virtual void embed_backward(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
                              const std::int32_t* tokens, ConstArray dy, float* dtable,
                              float* dpositions) = 0;
  // x[rows x classes] becomes its softmax, row by row;
  // losses[row] = -log softmax(x)[target].
  virtual void cross_entropy(std::int64_t rows, std::int64_t classes, const std::int32_t* targets,
                             Array x, float* losses) = 0;
  // For classes split over ranks, with x[rows x classes] for some of them: a negative target is
  // another rank's. part[cross_entropy_part x rows]: the rows' largest x, then sums of e^(x -
  // largest), then x at the target, or 0.
  virtual void cross_entropy_of_part(std::int64_t rows, std::int64_t classes,
                                     const std::int32_t* targets, ConstArray x, float* part) = 0;
  // With the consecutive parts of all ranks, x becomes the softmax over all classes and losses are
  // those of cross_entropy().
  virtual void join_cross_entropy(std::int64_t rows, std::int64_t classes, int ranks,
                                  const float* parts, Array x, float* losses) = 0;
  // The softmax becomes the gradient of the sum of losses: 1 less at a non-negative target.
  virtual void cross_entropy_backward(std::int64_t rows, std::int64_t classes,
                                      const std::int32_t* targets, Array x) = 0;

  // Steps weights, first and second moments by the gradients, which are unchanged; `rounded`, if
  // given, becomes the new weights.
  virtual void adamw(std::int64_t count, const AdamStep& step, const float* gradients,
                     float* weights, float* first, float* second, Array rounded) = 0;
};

}  // namespace pipesim::exec
