// The operators of the CPU, compiled once for each instruction set; see cpu_operators.h for why
// nothing in here may have external linkage.
#include "exec/device/cpu/cpu_operators.h"

#include "exec/device/cpu/attention.h"
#include "exec/device/cpu/library_products.h"
#include "exec/device/cpu/packed_product.h"
#include "exec/device/cpu/random_chunk.h"
#include "exec/device/cpu/softmax.h"
#include "exec/device/cpu/vector.h"

namespace pipesim::exec {
namespace {

// sigmoid(2 u) with u = sqrt(2/pi) (x + 0.044715 x^3); gelu(x) is x times it,
// since (1 + tanh u) / 2 = sigmoid(2 u). e is exp(-2 u).
struct Gate {
  Floats e;
  Floats value;
};

constexpr float gelu_scale = 1.5957691216F;  // 2 sqrt(2/pi)
constexpr float gelu_cubic = 0.044715F;

inline Gate gelu_gate(Floats x) {
  const Floats e = exponential(x * (-gelu_scale - gelu_scale * gelu_cubic * (x * x)));
  return {e, 1.0F / (1.0F + e)};
}

// to += from
inline void add_to(std::int64_t count, const float* from, float* to) {
  each_vector(count, [&](std::int64_t i, auto n) {
    store(to + i, load(to + i, n) + load(from + i, n), n);
  });
}

// The cosines and then the sines of each position's angles, as in Device::rotate(). They are cached
// until others are needed; earlier ones don't affect their bits.
class Angles {
 public:
  Angles() = default;
  Angles(const Angles&) = delete;
  Angles& operator=(const Angles&) = delete;
  ~Angles() { FloatOperators::release(values_); }

  // For at least `length` positions, `half` angles each.
  const float* of(std::int64_t length, std::int64_t half, float base) {
    if (length > length_ || half != half_ || base != base_) make(length, half, base);
    return values_;
  }

 private:
  void make(std::int64_t length, std::int64_t half, float base) {
    length_ = 0;  // in case there is no memory
    FloatOperators::release(values_);
    values_ = nullptr;
    values_ = static_cast<float*>(FloatOperators::allocate(std::int64_t{4} * 2 * half * length));
    for (std::int64_t i = 0; i < half; ++i) {
      const double frequency = __builtin_pow(static_cast<double>(base),
                                             -static_cast<double>(i) / static_cast<double>(half));
      for (std::int64_t position = 0; position < length; ++position) {
        const double angle = static_cast<double>(position) * frequency;
        float* at = values_ + position * 2 * half + i;
        at[0] = static_cast<float>(__builtin_cos(angle));
        at[half] = static_cast<float>(__builtin_sin(angle));
      }
    }
    length_ = length;
    half_ = half;
    base_ = base;
  }

  float* values_ = nullptr;
  std::int64_t length_ = 0;
  std::int64_t half_ = 0;
  float base_ = 0;
};

class CpuOperators final : public FloatOperators {
 public:
  explicit CpuOperators(bool own_products) {
    if (own_products) packed_ = static_cast<float*>(allocate(std::int64_t{4} * packed_floats));
  }
  CpuOperators(const CpuOperators&) = delete;
  CpuOperators& operator=(const CpuOperators&) = delete;
  ~CpuOperators() override { release(packed_); }

  // ---- Elements

  void fill(std::int64_t count, float* x, float value) override {
    each_vector(count, [&](std::int64_t i, auto n) { store(x + i, Floats{} + value, n); });
  }

  // The method of Box and Muller, on two pairs of words at a time.
  void fill_normal(std::int64_t count, float* x, const RandomKey& key, float deviation) override {
    for (std::int64_t i = 0; i < count; i += 4) {
      const RandomWords words = random_words(key, static_cast<std::uint64_t>((key.first + i) / 4));
      for (std::int64_t j = 0; j < 4 && i + j < count; ++j) {
        const std::uint32_t* pair = words.word + (j & 2);
        const double radius = __builtin_sqrt(-2 * __builtin_log((pair[0] + 1.0) * 0x1p-32));
        const double angle = 6.283185307179586 * (pair[1] * 0x1p-32);
        const double unit = (j & 1) == 0 ? __builtin_cos(angle) : __builtin_sin(angle);
        x[i + j] = static_cast<float>(deviation * (radius * unit));
      }
    }
  }

  void add(std::int64_t count, const float* a, const float* b, float* y) override {
    each_vector(count,
                [&](std::int64_t i, auto n) { store(y + i, load(a + i, n) + load(b + i, n), n); });
  }

  void copy(std::int64_t count, const float* x, float* y) override {
    if (count > 0) __builtin_memcpy(y, x, bytes_of(count));
  }

  double sum_of_squares(std::int64_t count, const float* x) override {
    constexpr int half = lanes / 2;
    Doubles total[4] = {};
    std::int64_t i = 0;
    for (; i + 4 * half <= count; i += 4 * half) {
      for (int part = 0; part < 4; ++part) {
        HalfFloats v;
        __builtin_memcpy(&v, x + i + part * half, sizeof v);
        const Doubles wide = __builtin_convertvector(v, Doubles);
        total[part] += wide * wide;
      }
    }
    double result = 0;
    for (; i < count; ++i) result += static_cast<double>(x[i]) * x[i];
    const Doubles all = (total[0] + total[1]) + (total[2] + total[3]);
    for (int lane = 0; lane < half; ++lane) result += all[lane];
    return result;
  }

  void dropout(std::int64_t count, const float* x, const Dropout& dropout, float* y) override {
    if (dropout.probability <= 0) {
      if (y != x && count > 0) __builtin_memcpy(y, x, bytes_of(count));
      return;
    }
    const Keep keep(dropout.probability);
    RandomChunk chunk;
    for (std::int64_t start = 0; start < count; start += RandomChunk::most) {
      const std::int64_t size = smaller(RandomChunk::most, count - start);
      const std::uint32_t* words = chunk.draw(dropout.key, start, size);
      each_vector(size, [&](std::int64_t i, auto n) {
        store(y + start + i, keep(load(x + start + i, n), words + i, n), n);
      });
    }
  }

  // ---- Matrices

  void matrix_product(Transpose transpose, std::int64_t m, std::int64_t n, std::int64_t k,
                      const float* a, const float* b, float* c, bool accumulate) override {
    const bool transpose_a = transpose == Transpose::a;
    const bool transpose_b = transpose == Transpose::b;
    multiply({transpose_a, transpose_b, m, n, k, a, transpose_a ? m : k, b, transpose_b ? k : n, c,
              n, accumulate});
  }

  void add_bias(std::int64_t rows, std::int64_t columns, const float* bias, float* x) override {
    for (std::int64_t row = 0; row < rows; ++row) add_to(columns, bias, x + row * columns);
  }

  void add_column_sums(std::int64_t rows, std::int64_t columns, const float* x,
                       float* sums) override {
    std::int64_t row = 0;
    for (; row + 4 <= rows; row += 4, x += 4 * columns) {
      each_vector(columns, [&](std::int64_t i, auto n) {
        const float* at = x + i;
        const Floats four = (load(at, n) + load(at + columns, n)) +
                            (load(at + 2 * columns, n) + load(at + 3 * columns, n));
        store(sums + i, load(sums + i, n) + four, n);
      });
    }
    for (; row < rows; ++row, x += columns) add_to(columns, x, sums);
  }

  // ---- Parts of a layer

  void bias_gelu(std::int64_t rows, std::int64_t columns, const float* bias, float* x,
                 float* y) override {
    if (bias == nullptr) {
      each_value(rows * columns, y, [&](std::int64_t i, auto n) {
        const Floats v = load(x + i, n);
        return v * gelu_gate(v).value;
      });
      return;
    }
    for (std::int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
      each_value(columns, y, [&](std::int64_t i, auto n) {
        const Floats v = load(x + i, n) + load(bias + i, n);
        store(x + i, v, n);
        return v * gelu_gate(v).value;
      });
    }
  }

  // With the gate s: gelu' = s + x s' and s' = s (1 - s) 2u' = e s^2 2u'. Beyond
  // 10 gelu' is 1 or 0 to the last bit, and stopping there keeps e finite.
  void gelu_backward(std::int64_t count, const float* x, const float* dy, float* dx) override {
    each_value(count, dx, [&](std::int64_t i, auto n) {
      const Floats v = larger(Floats{} - 10.0F, lesser(Floats{} + 10.0F, load(x + i, n)));
      const Gate gate = gelu_gate(v);
      const Floats inner = v * (gelu_scale + 3 * gelu_scale * gelu_cubic * (v * v));
      const Floats slope = gate.value + gate.e * gate.value * gate.value * inner;
      return load(dy + i, n) * slope;
    });
  }

  void gated_silu(std::int64_t rows, std::int64_t columns, const float* x, float* y) override {
    for (std::int64_t row = 0; row < rows; ++row, x += 2 * columns, y += columns) {
      each_value(columns, y, [&](std::int64_t i, auto n) {
        const Floats gate = load(x + i, n);
        return gate / (1.0F + exponential(Floats{} - gate)) * load(x + columns + i, n);
      });
    }
  }

  // With s = 1 / (1 + e^-gate): silu' = s (1 + gate (1 - s)).
  void gated_silu_backward(std::int64_t rows, std::int64_t columns, const float* x, const float* dy,
                           float* dx) override {
    for (std::int64_t row = 0; row < rows;
         ++row, x += 2 * columns, dy += columns, dx += 2 * columns) {
      each_vector(columns, [&](std::int64_t i, auto n) {
        const Floats gate = load(x + i, n);
        const Floats up = load(x + columns + i, n);
        const Floats slope = load(dy + i, n);
        const Floats s = 1.0F / (1.0F + exponential(Floats{} - gate));
        store(dx + i, slope * up * (s * (1.0F + gate * (1.0F - s))), n);
        store(dx + columns + i, slope * (gate * s), n);
      });
    }
  }

  void bias_dropout_add(std::int64_t rows, std::int64_t columns, const float* bias, const float* x,
                        const float* residual, const Dropout& dropout, float* y) override {
    if (bias == nullptr) {  // one long row
      return dropout_add(1, rows * columns, residual, dropout, y,
                         [&](std::int64_t at, std::int64_t, auto n) { return load(x + at, n); });
    }
    dropout_add(rows, columns, residual, dropout, y,
                [&](std::int64_t at, std::int64_t column, auto n) {
                  return load(x + at, n) + load(bias + column, n);
                });
  }

  void layer_norm(std::int64_t rows, std::int64_t columns, const float* x, const float* gamma,
                  const float* beta, float* y, float* mean, float* rstd) override {
    const auto size = static_cast<float>(columns);
    for (std::int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
      const float average =
          sum(columns, [&](std::int64_t i, auto n) { return load(x + i, n); }) / size;
      const float variance = sum(columns, [&](std::int64_t i, auto n) {
        const Floats away = load(x + i, n) - average;
        return away * away;
      });
      const float inverse = 1 / __builtin_sqrtf(variance / size + 1e-5F);
      each_value(columns, y, [&](std::int64_t i, auto n) {
        fetch(x + columns + i);
        const Floats unit = (load(x + i, n) - average) * inverse;
        return unit * load(gamma + i, n) + load(beta + i, n);
      });
      mean[row] = average;
      rstd[row] = inverse;
    }
  }

  // With u = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - u mean(g u)).
  void layer_norm_backward(std::int64_t rows, std::int64_t columns, const float* dy, const float* x,
                           const float* gamma, const float* mean, const float* rstd,
                           const float* residual, float* dx, float* dgamma, float* dbeta) override {
    clear(columns, dgamma);
    clear(columns, dbeta);
    const auto size = static_cast<float>(columns);
    for (std::int64_t row = 0; row < rows; ++row, dy += columns, x += columns, dx += columns) {
      const float average = mean[row];
      const float inverse = rstd[row];
      const float mean_g =
          sum(columns,
              [&](std::int64_t i, auto n) { return load(dy + i, n) * load(gamma + i, n); }) /
          size;
      const float mean_gu = sum(columns,
                                [&](std::int64_t i, auto n) {
                                  return load(dy + i, n) * load(gamma + i, n) *
                                         ((load(x + i, n) - average) * inverse);
                                }) /
                            size;
      const auto gradient = [&](std::int64_t i, auto n) {
        const Floats d = load(dy + i, n);
        const Floats unit = (load(x + i, n) - average) * inverse;
        store(dgamma + i, load(dgamma + i, n) + d * unit, n);
        store(dbeta + i, load(dbeta + i, n) + d, n);
        return (d * load(gamma + i, n) - mean_g - unit * mean_gu) * inverse;
      };
      if (residual == nullptr) {
        each_vector(columns, [&](std::int64_t i, auto n) { store(dx + i, gradient(i, n), n); });
      } else {
        each_vector(columns, [&](std::int64_t i, auto n) {
          store(dx + i, load(residual + i, n) + gradient(i, n), n);
        });
        residual += columns;
      }
    }
  }

  void rms_norm(std::int64_t rows, std::int64_t columns, const float* x, const float* gamma,
                float* y, float* rstd) override {
    const auto size = static_cast<float>(columns);
    for (std::int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
      const float squares =
          sum(columns, [&](std::int64_t i, auto n) { return load(x + i, n) * load(x + i, n); });
      const float inverse = 1 / __builtin_sqrtf(squares / size + 1e-5F);
      each_value(columns, y, [&](std::int64_t i, auto n) {
        fetch(x + columns + i);
        return load(x + i, n) * inverse * load(gamma + i, n);
      });
      rstd[row] = inverse;
    }
  }

  // With u = x rstd and g = dy gamma: dx = rstd (g - u mean(g u)).
  void rms_norm_backward(std::int64_t rows, std::int64_t columns, const float* dy, const float* x,
                         const float* gamma, const float* rstd, const float* residual, float* dx,
                         float* dgamma) override {
    clear(columns, dgamma);
    const auto size = static_cast<float>(columns);
    for (std::int64_t row = 0; row < rows; ++row, dy += columns, x += columns, dx += columns) {
      const float inverse = rstd[row];
      const float mean_gu =
          sum(columns,
              [&](std::int64_t i, auto n) {
                return load(dy + i, n) * load(gamma + i, n) * (load(x + i, n) * inverse);
              }) /
          size;
      const auto gradient = [&](std::int64_t i, auto n) {
        const Floats d = load(dy + i, n);
        const Floats unit = load(x + i, n) * inverse;
        store(dgamma + i, load(dgamma + i, n) + d * unit, n);
        return (d * load(gamma + i, n) - unit * mean_gu) * inverse;
      };
      if (residual == nullptr) {
        each_vector(columns, [&](std::int64_t i, auto n) { store(dx + i, gradient(i, n), n); });
      } else {
        each_vector(columns, [&](std::int64_t i, auto n) {
          store(dx + i, load(residual + i, n) + gradient(i, n), n);
        });
        residual += columns;
      }
    }
  }

  void rotate(const AttentionShape& shape, float base, bool back, float* qkv) override {
    const std::int64_t half = shape.head_size / 2;
    const std::int64_t turned = shape.heads + shape.kv_heads();
    const float* angles = angles_.of(shape.sequence, half, base);
    const float direction = back ? -1 : 1;
    for (std::int64_t row = 0; row < shape.rows(); ++row) {
      const float* cosines = angles + row % shape.sequence * 2 * half;
      const float* sines = cosines + half;
      float* x = qkv + row * shape.qkv_size();
      for (std::int64_t head = 0; head < turned; ++head, x += shape.head_size) {
        each_vector(half, [&](std::int64_t i, auto n) {
          const Floats a = load(x + i, n);
          const Floats b = load(x + half + i, n);
          const Floats c = load(cosines + i, n);
          const Floats s = load(sines + i, n) * direction;
          store(x + i, a * c - b * s, n);
          store(x + half + i, b * c + a * s, n);
        });
      }
    }
  }

  void attention(const AttentionShape& shape, const float* qkv, float* state, float* y) override {
    const auto by = [&](const MatrixProduct& product) { multiply(product); };
    if (shape.linear) {
      linear_attention(shape, qkv, state, y, scratch(linear_attention_room), by);
    } else {
      pipesim::exec::attention(shape, qkv, state, y, by);
    }
  }

  void attention_backward(const AttentionShape& shape, const float* qkv, float* state,
                          const float* y, const float* dy, float* dqkv) override {
    const auto by = [&](const MatrixProduct& product) { multiply(product); };
    if (shape.linear) {
      float* room = scratch(linear_attention_room);
      linear_attention_backward(shape, qkv, state, y, dy, dqkv, room, by);
    } else {
      float* room = scratch(attention_backward_room(shape));
      pipesim::exec::attention_backward(shape, qkv, state, dy, dqkv, room, by);
    }
  }

  void embed(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
             const std::int32_t* tokens, const float* table, const float* positions,
             float* y) override {
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* value = tokens[row] < 0 ? nullptr : table + tokens[row] * columns;
      const float* position = positions == nullptr ? nullptr : positions + row % sequence * columns;
      float* sum = y + row * columns;
      if (value != nullptr && position != nullptr) {
        add(columns, value, position, sum);
      } else if (value != nullptr || position != nullptr) {
        copy(columns, value != nullptr ? value : position, sum);
      } else {
        clear(columns, sum);
      }
    }
  }

  void embed_backward(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
                      const std::int32_t* tokens, const float* dy, float* dtable,
                      float* dpositions) override {
    for (std::int64_t row = 0; row < rows; ++row) {
      if (tokens[row] >= 0) add_to(columns, dy + row * columns, dtable + tokens[row] * columns);
      if (dpositions == nullptr) continue;
      add_to(columns, dy + row * columns, dpositions + row % sequence * columns);
    }
  }

  void cross_entropy(std::int64_t rows, std::int64_t classes, const std::int32_t* targets, float* x,
                     float* losses) override {
    for (std::int64_t row = 0; row < rows; ++row, x += classes) {
      const double target = x[targets[row]];
      const Normaliser norm = softmax(classes, 1, x);
      losses[row] = static_cast<float>(__builtin_log(static_cast<double>(norm.sum)) +
                                       (norm.largest - target));
    }
  }

  void cross_entropy_of_part(std::int64_t rows, std::int64_t classes, const std::int32_t* targets,
                             const float* x, float* part) override {
    for (std::int64_t row = 0; row < rows; ++row, x += classes) {
      part[2 * rows + row] = targets[row] < 0 ? 0 : x[targets[row]];
      const Normaliser norm = normaliser(classes, x);
      part[row] = norm.largest;
      part[rows + row] = norm.sum;
    }
  }

  void join_cross_entropy(std::int64_t rows, std::int64_t classes, int ranks, const float* parts,
                          float* x, float* losses) override {
    for (std::int64_t row = 0; row < rows; ++row, x += classes) {
      const auto at = [&](int rank, std::int64_t which) -> double {
        return parts[(cross_entropy_part * rank + which) * rows + row];
      };
      double most = at(0, 0);
      for (int rank = 1; rank < ranks; ++rank) most = at(rank, 0) > most ? at(rank, 0) : most;
      double total = 0;
      double target = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        total += at(rank, 1) * __builtin_exp(at(rank, 0) - most);
        target += at(rank, 2);
      }
      const auto largest = static_cast<float>(most);
      const auto inverse = static_cast<float>(1 / total);
      each_vector(classes, [&](std::int64_t i, auto n) {
        store(x + i, exponential(load(x + i, n) - largest) * inverse, n);
      });
      losses[row] = static_cast<float>(__builtin_log(total) + (most - target));
    }
  }

  void cross_entropy_backward(std::int64_t rows, std::int64_t classes, const std::int32_t* targets,
                              float* x) override {
    for (std::int64_t row = 0; row < rows; ++row) {
      if (targets[row] >= 0) x[row * classes + targets[row]] -= 1;
    }
  }

  void adamw(std::int64_t count, const AdamStep& step, const float* gradients, float* weights,
             float* first, float* second) override {
    const float decay = 1 - step.learning_rate * step.weight_decay;
    const float rate = step.learning_rate / step.correction1;
    const float correction = 1 / step.correction2;
    each_vector(count, [&](std::int64_t i, auto n) {
      const Floats g = load(gradients + i, n) * step.gradient_scale;
      const Floats m = load(first + i, n) * step.beta1 + g * (1 - step.beta1);
      const Floats v = load(second + i, n) * step.beta2 + g * g * (1 - step.beta2);
      const Floats size = square_root(v * correction) + step.epsilon;
      store(first + i, m, n);
      store(second + i, v, n);
      store(weights + i, load(weights + i, n) * decay - rate * m / size, n);
    });
  }

 private:
  // y = residual + dropout(value(i, column of i, Whole or Part)), row by row.
  template <typename Value>
  static void dropout_add(std::int64_t rows, std::int64_t columns, const float* residual,
                          const Dropout& dropout, float* y, Value value) {
    if (dropout.probability <= 0) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t start = row * columns;
        each_vector(columns, [&](std::int64_t i, auto n) {
          store(y + start + i, load(residual + start + i, n) + value(start + i, i, n), n);
        });
      }
      return;
    }
    const Keep keep(dropout.probability);
    RandomChunk chunk;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; column += RandomChunk::most) {
        const std::int64_t start = row * columns + column;
        const std::int64_t size = smaller(RandomChunk::most, columns - column);
        const std::uint32_t* words = chunk.draw(dropout.key, start, size);
        each_vector(size, [&](std::int64_t i, auto n) {
          const Floats kept = keep(value(start + i, column + i, n), words + i, n);
          store(y + start + i, load(residual + start + i, n) + kept, n);
        });
      }
    }
  }

  void multiply(const MatrixProduct& product) const {
    if (product.m == 0 || product.n == 0) return;
    if (product.k == 0) {
      for (std::int64_t i = 0; i < product.m && !product.accumulate; ++i) {
        clear(product.n, product.c + i * product.ldc);
      }
    } else if (packed_ != nullptr) {
      packed_product(product, packed_);
    } else {
      library_product(product);
    }
  }

  float* packed_ = nullptr;  // room for the built-in GEMMs; null: the library's are used
  Angles angles_;
};

}  // namespace

FloatOperators* PIPESIM_MAKE_OPERATORS(bool own_products) { return new CpuOperators(own_products); }

}  // namespace pipesim::exec
