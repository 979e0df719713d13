// Elementwise operators.
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/kernels.h"

namespace pipesim::exec::kernels {
namespace {

template <typename T>
struct Fill {
  T* x;
  float value;
  __device__ void operator()(std::int64_t i, int n) const {
    Group<group_of<T>> group;
    for (float& v : group.v) v = value;
    store(x + i, group, n);
  }
};

// Converts between types; a group is as many as fit for the wider one.
template <typename From, typename To>
struct Copy {
  const From* x;
  To* y;
  __device__ void operator()(std::int64_t i, int n) const { store(y + i, load<4>(x + i, n), n); }
};

template <typename T>
struct AddArrays {
  const T* a;
  const T* b;
  T* y;
  __device__ void operator()(std::int64_t i, int n) const {
    auto sum = load(a + i, n);
    const auto other = load(b + i, n);
    for (int j = 0; j < group_of<T>; ++j) sum.v[j] += other.v[j];
    store(y + i, sum, n);
  }
};

template <typename T>
struct AddBias {
  std::int64_t columns;
  const T* bias;
  T* x;
  __device__ void operator()(std::int64_t i, int n) const {
    auto sum = load(x + i, n);
    const auto row = load_over(bias, i, columns, n);
    for (int j = 0; j < group_of<T>; ++j) sum.v[j] += row.v[j];
    store(x + i, sum, n);
  }
};

// sigmoid(2 u) with u = sqrt(2/pi) (x + 0.044715 x^3); gelu(x) is x times it,
// since (1 + tanh u) / 2 = sigmoid(2 u). e is exp(-2 u).
constexpr float gelu_scale = 1.5957691216F;  // 2 sqrt(2/pi)
constexpr float gelu_cubic = 0.044715F;

struct Gate {
  float e;
  float value;
};

__device__ inline Gate gelu_gate(float x) {
  const float e = expf(x * (-gelu_scale - gelu_scale * gelu_cubic * (x * x)));
  return {e, 1.0F / (1.0F + e)};
}

template <typename T>
struct BiasGelu {
  std::int64_t columns;
  const T* bias;
  T* x;
  T* y;
  __device__ void operator()(std::int64_t i, int n) const {
    auto sum = load(x + i, n);
    if (bias != nullptr) {
      const auto row = load_over(bias, i, columns, n);
      for (int j = 0; j < group_of<T>; ++j) {
        sum.v[j] = static_cast<T>(sum.v[j] + row.v[j]);  // in the stored type
      }
    }
    auto result = sum;
    for (int j = 0; j < group_of<T>; ++j) {
      result.v[j] = sum.v[j] * gelu_gate(sum.v[j]).value;
    }
    store(x + i, sum, n);
    store(y + i, result, n);
  }
};

// With the gate s: gelu' = s + x s' and s' = s (1 - s) 2u' = e s^2 2u'. Beyond
// 10 gelu' is 1 or 0 to the last bit, and stopping there keeps e finite; a NaN
// passes both comparisons.
template <typename T>
struct GeluBackward {
  const T* x;
  const T* dy;
  T* dx;
  __device__ void operator()(std::int64_t i, int n) const {
    const auto at = load(x + i, n);
    auto gradient = load(dy + i, n);
    for (int j = 0; j < group_of<T>; ++j) {
      float v = at.v[j];
      if (v > 10.0F) v = 10.0F;
      if (v < -10.0F) v = -10.0F;
      const Gate gate = gelu_gate(v);
      const float inner = v * (gelu_scale + 3 * gelu_scale * gelu_cubic * (v * v));
      gradient.v[j] *= gate.value + gate.e * gate.value * gate.value * inner;
    }
    store(dx + i, gradient, n);
  }
};

// The gates come first in a row of x, then the gated inputs.
__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

template <typename T>
struct GatedSilu {
  std::int64_t columns;
  const T* x;
  T* y;
  __device__ void operator()(std::int64_t i, int /*n*/) const {
    const T* gates = x + i / columns * columns + i;
    const float gate = gates[0];
    y[i] = static_cast<T>(gate * sigmoid(gate) * static_cast<float>(gates[columns]));
  }
};

// With s = sigmoid(gate): silu' = s (1 + gate (1 - s)).
template <typename T>
struct GatedSiluBackward {
  std::int64_t columns;
  const T* x;
  const T* dy;
  T* dx;
  __device__ void operator()(std::int64_t i, int /*n*/) const {
    const std::int64_t at = i / columns * columns + i;
    const float gate = x[at];
    const float up = x[at + columns];
    const float slope = dy[i];
    const float s = sigmoid(gate);
    dx[at] = static_cast<T>(slope * up * (s * (1.0F + gate * (1.0F - s))));
    dx[at + columns] = static_cast<T>(slope * (gate * s));
  }
};

// angles[position x half]: all cosines, then all sines.
struct Angles {
  std::int64_t half;
  std::int64_t count;
  double base;
  float* cosines;
  __device__ void operator()(std::int64_t i, int /*n*/) const {
    const auto position = static_cast<double>(i / half);
    const double exponent = -static_cast<double>(i % half) / static_cast<double>(half);
    const double angle = position * pow(base, exponent);
    cosines[i] = static_cast<float>(cos(angle));
    cosines[count + i] = static_cast<float>(sin(angle));
  }
};

// A pair of numbers of a head's q or k.
template <typename T>
struct Rotate {
  std::int64_t half;
  std::int64_t pairs;  // rotated, per row
  std::int64_t width;  // of a row of qkv
  std::int64_t sequence;
  const float* cosines;
  float sign;  // -1: back
  T* qkv;
  __device__ void operator()(std::int64_t i, int /*n*/) const {
    const std::int64_t row = i / pairs;
    const std::int64_t pair = i - row * pairs;
    const std::int64_t at = pair % half;
    const std::int64_t angle = row % sequence * half + at;
    T* x = qkv + row * width + pair / half * 2 * half + at;
    const float c = cosines[angle];
    const float s = sign * cosines[sequence * half + angle];
    const float a = x[0];
    const float b = x[half];
    x[0] = static_cast<T>(a * c - b * s);
    x[half] = static_cast<T>(b * c + a * s);
  }
};

// Groups of four: `rounded`, which may be null, is written as it stands.
template <typename T>
struct Adam {
  AdamStep step;
  float decay;
  float rate;
  float correction;
  const float* gradients;
  float* weights;
  float* first;
  float* second;
  T* rounded;
  __device__ void operator()(std::int64_t i, int n) const {
    const Four gradient = load(gradients + i, n);
    Four weight = load(weights + i, n);
    Four m = load(first + i, n);
    Four v = load(second + i, n);
    for (int j = 0; j < 4; ++j) {
      const float g = gradient.v[j] * step.gradient_scale;
      m.v[j] = m.v[j] * step.beta1 + g * (1 - step.beta1);
      v.v[j] = v.v[j] * step.beta2 + g * g * (1 - step.beta2);
      const float size = sqrtf(v.v[j] * correction) + step.epsilon;
      weight.v[j] = weight.v[j] * decay - rate * m.v[j] / size;
    }
    store(first + i, m, n);
    store(second + i, v, n);
    store(weights + i, weight, n);
    if (rounded != nullptr) store(rounded + i, weight, n);
  }
};

}  // namespace

template <typename T>
void fill(gpuStream_t stream, std::int64_t count, T* x, float value) {
  each_group<group_of<T>>(stream, "fill", count, Fill<T>{x, value});
}

template <typename From, typename To>
void convert(gpuStream_t stream, std::int64_t count, const From* x, To* y) {
  each_group<4>(stream, "copy", count, Copy<From, To>{x, y});
}

template <typename T>
void add(gpuStream_t stream, std::int64_t count, const T* a, const T* b, T* y) {
  each_group<group_of<T>>(stream, "add", count, AddArrays<T>{a, b, y});
}

template <typename T>
void add_bias(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* bias, T* x) {
  each_group<group_of<T>>(stream, "add_bias", rows * columns, AddBias<T>{columns, bias, x});
}

template <typename T>
void bias_gelu(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* bias, T* x,
               T* y) {
  each_group<group_of<T>>(stream, "bias_gelu", rows * columns, BiasGelu<T>{columns, bias, x, y});
}

template <typename T>
void gelu_backward(gpuStream_t stream, std::int64_t count, const T* x, const T* dy, T* dx) {
  each_group<group_of<T>>(stream, "gelu_backward", count, GeluBackward<T>{x, dy, dx});
}

template <typename T>
void gated_silu(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x, T* y) {
  each_group<1>(stream, "gated_silu", rows * columns, GatedSilu<T>{columns, x, y});
}

template <typename T>
void gated_silu_backward(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const T* x,
                         const T* dy, T* dx) {
  each_group<1>(stream, "gated_silu_backward", rows * columns,
                GatedSiluBackward<T>{columns, x, dy, dx});
}

template <typename T>
void rotate(gpuStream_t stream, const AttentionShape& shape, float base, bool back, float* angles,
            T* qkv) {
  const std::int64_t half = shape.head_size / 2;
  const std::int64_t count = shape.sequence * half;
  const std::int64_t pairs = (shape.heads + shape.kv_heads()) * half;
  each_group<1>(stream, "rotate", count, Angles{half, count, base, angles});
  each_group<1>(
      stream, "rotate", shape.rows() * pairs,
      Rotate<T>{half, pairs, shape.qkv_size(), shape.sequence, angles, back ? -1.0F : 1.0F, qkv});
}

template <typename T>
void adamw(gpuStream_t stream, std::int64_t count, const AdamStep& step, const float* gradients,
           float* weights, float* first, float* second, T* rounded) {
  each_group<4>(stream, "adamw", count,
                Adam<T>{step, 1 - step.learning_rate * step.weight_decay,
                        step.learning_rate / step.correction1, 1 / step.correction2, gradients,
                        weights, first, second, rounded});
}

template decltype(fill<float>) fill<float>;
template decltype(fill<gpuBfloat16>) fill<gpuBfloat16>;
template decltype(add<float>) add<float>;
template decltype(add<gpuBfloat16>) add<gpuBfloat16>;
template decltype(add_bias<float>) add_bias<float>;
template decltype(add_bias<gpuBfloat16>) add_bias<gpuBfloat16>;
template decltype(bias_gelu<float>) bias_gelu<float>;
template decltype(bias_gelu<gpuBfloat16>) bias_gelu<gpuBfloat16>;
template decltype(gelu_backward<float>) gelu_backward<float>;
template decltype(gelu_backward<gpuBfloat16>) gelu_backward<gpuBfloat16>;
template decltype(gated_silu<float>) gated_silu<float>;
template decltype(gated_silu<gpuBfloat16>) gated_silu<gpuBfloat16>;
template decltype(gated_silu_backward<float>) gated_silu_backward<float>;
template decltype(gated_silu_backward<gpuBfloat16>) gated_silu_backward<gpuBfloat16>;
template decltype(rotate<float>) rotate<float>;
template decltype(rotate<gpuBfloat16>) rotate<gpuBfloat16>;
template decltype(adamw<float>) adamw<float>;
template decltype(adamw<gpuBfloat16>) adamw<gpuBfloat16>;
template decltype(convert<float, gpuBfloat16>) convert<float, gpuBfloat16>;
template decltype(convert<gpuBfloat16, float>) convert<gpuBfloat16, float>;

}  // namespace pipesim::exec::kernels
