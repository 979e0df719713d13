// Operators on elements, each of which depends on its own place alone.
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/kernels.h"

namespace pipesim::exec::kernels {
namespace {

struct Fill {
  float* x;
  float value;
  __device__ void operator()(std::int64_t i, int n) const {
    store(x + i, {{value, value, value, value}}, n);
  }
};

struct AddArrays {
  const float* a;
  const float* b;
  float* y;
  __device__ void operator()(std::int64_t i, int n) const {
    Four sum = load(a + i, n);
    const Four other = load(b + i, n);
    for (int j = 0; j < 4; ++j) sum.v[j] += other.v[j];
    store(y + i, sum, n);
  }
};

struct AddBias {
  std::int64_t columns;
  const float* bias;
  float* x;
  __device__ void operator()(std::int64_t i, int n) const {
    Four sum = load(x + i, n);
    const Four row = load_over(bias, i, columns, n);
    for (int j = 0; j < 4; ++j) sum.v[j] += row.v[j];
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

struct BiasGelu {
  std::int64_t columns;
  const float* bias;
  float* x;
  float* y;
  __device__ void operator()(std::int64_t i, int n) const {
    Four sum = load(x + i, n);
    const Four row = load_over(bias, i, columns, n);
    Four result;
    for (int j = 0; j < 4; ++j) {
      sum.v[j] += row.v[j];
      result.v[j] = sum.v[j] * gelu_gate(sum.v[j]).value;
    }
    store(x + i, sum, n);
    store(y + i, result, n);
  }
};

// With the gate s: gelu' = s + x s' and s' = s (1 - s) 2u' = e s^2 2u'. Beyond
// 10 gelu' is 1 or 0 to the last bit, and stopping there keeps e finite; a NaN
// passes both comparisons.
struct GeluBackward {
  const float* x;
  const float* dy;
  float* dx;
  __device__ void operator()(std::int64_t i, int n) const {
    const Four at = load(x + i, n);
    Four gradient = load(dy + i, n);
    for (int j = 0; j < 4; ++j) {
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

struct Adam {
  AdamStep step;
  float decay;
  float rate;
  float correction;
  const float* gradients;
  float* weights;
  float* first;
  float* second;
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
  }
};

}  // namespace

void fill(gpuStream_t stream, std::int64_t count, float* x, float value) {
  each_group(stream, "fill", count, Fill{x, value});
}

void add(gpuStream_t stream, std::int64_t count, const float* a, const float* b, float* y) {
  each_group(stream, "add", count, AddArrays{a, b, y});
}

void add_bias(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const float* bias,
              float* x) {
  each_group(stream, "add_bias", rows * columns, AddBias{columns, bias, x});
}

void bias_gelu(gpuStream_t stream, std::int64_t rows, std::int64_t columns, const float* bias,
               float* x, float* y) {
  each_group(stream, "bias_gelu", rows * columns, BiasGelu{columns, bias, x, y});
}

void gelu_backward(gpuStream_t stream, std::int64_t count, const float* x, const float* dy,
                   float* dx) {
  each_group(stream, "gelu_backward", count, GeluBackward{x, dy, dx});
}

void adamw(gpuStream_t stream, std::int64_t count, const AdamStep& step, const float* gradients,
           float* weights, float* first, float* second) {
  each_group(
      stream, "adamw", count,
      Adam{step, 1 - step.learning_rate * step.weight_decay, step.learning_rate / step.correction1,
           1 / step.correction2, gradients, weights, first, second});
}

}  // namespace pipesim::exec::kernels
