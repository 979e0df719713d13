// Operators that draw random numbers: the words are those of random.h, so that dropout drops the
// same elements as on any other device.
#include "exec/device/gpu/kernel.h"
#include "exec/device/gpu/kernels.h"

namespace pipesim::exec::kernels {
namespace {

// The words of four elements from `i`.
__device__ inline RandomWords words_at(const RandomKey& key, std::int64_t i) {
  const auto start = static_cast<std::uint64_t>(key.first + i);
  const RandomWords words = random_words(key, start / 4);
  const std::uint64_t ahead = start % 4;
  if (ahead == 0) return words;
  const RandomWords next = random_words(key, start / 4 + 1);
  RandomWords result;
  for (std::uint64_t j = 0; j < 4; ++j) {
    result.word[j] = ahead + j < 4 ? words.word[ahead + j] : next.word[ahead + j - 4];
  }
  return result;
}

// The method of Box and Muller, on two pairs of words, in double: a number rarely differs from
// another device's, and at most in the last bit.
struct FillNormal {
  RandomKey key;
  float deviation;
  float* x;
  __device__ void operator()(std::int64_t i, int n) const {
    const RandomWords words = words_at(key, i);
    Four four;
    for (int pair = 0; pair < 4; pair += 2) {
      const double radius = sqrt(-2 * log((words.word[pair] + 1.0) * 0x1p-32));
      const double angle = 6.283185307179586 * (words.word[pair + 1] * 0x1p-32);
      four.v[pair] = static_cast<float>(deviation * (radius * cos(angle)));
      four.v[pair + 1] = static_cast<float>(deviation * (radius * sin(angle)));
    }
    store(x + i, four, n);
  }
};

// Dropout of groups.
struct Keep {
  RandomKey key;
  float kept = 1;  // the probability of being kept
  float inverse = 1;
  std::uint32_t last_dropped = 0;

  // `probability` of dropping, above 0 and at most 1.
  explicit Keep(const Dropout& dropout)
      : key(dropout.key), kept(1 - dropout.probability), inverse(1 / kept) {
    const double threshold = static_cast<double>(dropout.probability) * 0x1p32;  // exact
    const auto below = static_cast<std::int64_t>(threshold);
    last_dropped =
        static_cast<std::uint32_t>(static_cast<double>(below) < threshold ? below : below - 1);
  }

  // x / kept, to the bit. Unless it overflows or loses bits, a quotient becomes exact by adding its
  // remainder twice, since the inverse is correctly rounded (Markstein, 1990): half of the work.
  template <int size>
  __device__ Group<size> scaled(const Group<size>& x) const {
    float least = fabsf(x.v[0]);
    float most = least;
    for (const float v : x.v) {
      least = fminf(least, fabsf(v));
      most = fmaxf(most, fabsf(v));
    }
    Group<size> result;
    if (least > 0x1p-100F && most < 0x1p100F) {
      for (int j = 0; j < size; ++j) {
        float quotient = x.v[j] * inverse;
        quotient = fmaf(fmaf(-kept, quotient, x.v[j]), inverse, quotient);
        result.v[j] = fmaf(fmaf(-kept, quotient, x.v[j]), inverse, quotient);
      }
    } else {
      for (int j = 0; j < size; ++j) result.v[j] = x.v[j] / kept;
    }
    return result;
  }

  template <int size>
  __device__ Group<size> operator()(const Group<size>& x, std::int64_t i) const {
    Group<size> result = scaled(x);
    for (int first = 0; first < size; first += 4) {
      const RandomWords words = words_at(key, i + first);
      for (int j = 0; j < 4; ++j) {
        if (words.word[j] <= last_dropped) result.v[first + j] = 0;
      }
    }
    return result;
  }
};

template <typename T>
struct Drop {
  Keep keep;
  const T* x;
  T* y;
  __device__ void operator()(std::int64_t i, int n) const {
    store(y + i, keep(load(x + i, n), i), n);
  }
};

template <typename T, bool drops>
struct BiasDropoutAdd {
  Keep keep;
  std::int64_t columns;
  const T* bias;
  const T* x;
  const T* residual;
  T* y;
  __device__ void operator()(std::int64_t i, int n) const {
    auto sum = load(x + i, n);
    if (bias != nullptr) {
      const auto row = load_over(bias, i, columns, n);
      for (int j = 0; j < group_of<T>; ++j) sum.v[j] += row.v[j];
    }
    if (drops) sum = keep(sum, i);
    const auto other = load(residual + i, n);
    for (int j = 0; j < group_of<T>; ++j) sum.v[j] += other.v[j];
    store(y + i, sum, n);
  }
};

}  // namespace

void fill_normal(gpuStream_t stream, std::int64_t count, float* x, const RandomKey& key,
                 float deviation) {
  each_group(stream, "fill_normal", count, FillNormal{key, deviation, x});
}

template <typename T>
void dropout(gpuStream_t stream, std::int64_t count, const Dropout& dropout, const T* x, T* y) {
  each_group<group_of<T>>(stream, "dropout", count, Drop<T>{Keep(dropout), x, y});
}

template <typename T>
void bias_dropout_add(gpuStream_t stream, std::int64_t rows, std::int64_t columns,
                      const Dropout& dropout, const T* bias, const T* x, const T* residual, T* y) {
  const char* name = "bias_dropout_add";
  const Keep keep(dropout);
  if (dropout.probability > 0) {
    each_group<group_of<T>>(stream, name, rows * columns,
                            BiasDropoutAdd<T, true>{keep, columns, bias, x, residual, y});
  } else {
    each_group<group_of<T>>(stream, name, rows * columns,
                            BiasDropoutAdd<T, false>{keep, columns, bias, x, residual, y});
  }
}

template decltype(dropout<float>) dropout<float>;
template decltype(dropout<gpuBfloat16>) dropout<gpuBfloat16>;
template decltype(bias_dropout_add<float>) bias_dropout_add<float>;
template decltype(bias_dropout_add<gpuBfloat16>) bias_dropout_add<gpuBfloat16>;

}  // namespace pipesim::exec::kernels
