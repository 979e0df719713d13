// Vectors of floats, as wide as the instruction set: loads and stores, also of a part at the end of
// a row, exp, and sums in a fixed order.
//
// For cpu_operators.cpp only, hence internal linkage.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace pipesim::exec {
namespace {

#if defined(__AVX512F__)
constexpr int lanes = 16;
#elif defined(__AVX__)
constexpr int lanes = 8;
#else
constexpr int lanes = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * lanes)));
typedef std::uint32_t Words __attribute__((vector_size(4 * lanes)));
typedef std::uint64_t Longs __attribute__((vector_size(4 * lanes)));
typedef double Doubles __attribute__((vector_size(4 * lanes)));
typedef float HalfFloats __attribute__((vector_size(2 * lanes)));

// How much of a vector counts: all, or `count` lanes at the end of a row.
struct Whole {};
struct Part {
  std::int64_t count;
};

constexpr std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

inline Floats load(const float* x, Whole /*all*/) {
  Floats v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}
inline void store(float* x, Floats v, Whole /*all*/) { __builtin_memcpy(x, &v, sizeof v); }
#if defined(__AVX512F__)
inline __mmask16 mask_of(Part part) { return static_cast<__mmask16>((1U << part.count) - 1); }
inline Floats load(const float* x, Part part) {
  return reinterpret_cast<Floats>(_mm512_maskz_loadu_ps(mask_of(part), x));
}
inline void store(float* x, Floats v, Part part) {
  _mm512_mask_storeu_ps(x, mask_of(part), reinterpret_cast<__m512>(v));
}
#else
inline Floats load(const float* x, Part part) {
  Floats v = {};
  __builtin_memcpy(&v, x, bytes_of(part.count));
  return v;
}
inline void store(float* x, Floats v, Part part) { __builtin_memcpy(x, &v, bytes_of(part.count)); }
#endif

inline void clear(std::int64_t count, float* x) {
  if (count > 0) __builtin_memset(x, 0, bytes_of(count));
}

inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Prefetches; the address may be out of range.
inline void fetch(const float* x) { __builtin_prefetch(x); }

// v, and `other` in the lanes that do not count.
inline Floats only(Floats v, Whole /*all*/, float /*other*/) { return v; }
inline Floats only(Floats v, Part part, float other) {
  for (std::int64_t i = part.count; i < lanes; ++i) v[i] = other;
  return v;
}

// body(i, Whole or Part) for each vector of `count` elements.
template <typename Body>
inline void each_vector(std::int64_t count, Body body) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, Whole{});
  if (i < count) body(i, Part{count - i});
}

// y[i] = of(i, Whole or Part), four vectors at a time, so that the compiler can interleave their
// instructions: a single one would wait for itself. y may be an input.
template <typename Of>
inline void each_value(std::int64_t count, float* y, Of of) {
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const Floats y0 = of(i, Whole{});
    const Floats y1 = of(i + lanes, Whole{});
    const Floats y2 = of(i + 2 * lanes, Whole{});
    const Floats y3 = of(i + 3 * lanes, Whole{});
    store(y + i, y0, Whole{});
    store(y + i + lanes, y1, Whole{});
    store(y + i + 2 * lanes, y2, Whole{});
    store(y + i + 3 * lanes, y3, Whole{});
  }
  each_vector(count - i, [&](std::int64_t j, auto n) { store(y + i + j, of(i + j, n), n); });
}

// The sum of term(i, Whole or Part) over `count` elements.
template <typename Term>
inline float sum(std::int64_t count, Term term) {
  Floats total0 = {};
  Floats total1 = {};
  Floats total2 = {};
  Floats total3 = {};
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    total0 += term(i, Whole{});
    total1 += term(i + lanes, Whole{});
    total2 += term(i + 2 * lanes, Whole{});
    total3 += term(i + 3 * lanes, Whole{});
  }
  for (; i + lanes <= count; i += lanes) total0 += term(i, Whole{});
  if (i < count) total1 += only(term(i, Part{count - i}), Part{count - i}, 0);
  const Floats total = (total0 + total1) + (total2 + total3);
  float sums[lanes];
  __builtin_memcpy(sums, &total, sizeof sums);
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

// b if either is NaN.
#if defined(__AVX512F__)  // g++ 12 would compile these to a comparison and a blend
inline Floats larger(Floats a, Floats b) {
  return reinterpret_cast<Floats>(
      _mm512_maskz_max_ps(0xffff, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
}
inline Floats lesser(Floats a, Floats b) {
  return reinterpret_cast<Floats>(
      _mm512_maskz_min_ps(0xffff, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
}
#else
inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }
inline Floats lesser(Floats a, Floats b) { return a < b ? a : b; }
#endif

inline float largest(std::int64_t count, const float* x) {
  const float least = -__builtin_inff();
  Floats best0 = Floats{} + least;
  Floats best1 = best0;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    best0 = larger(best0, load(x + i, Whole{}));
    best1 = larger(best1, load(x + i + lanes, Whole{}));
  }
  each_vector(count - i, [&](std::int64_t j, auto n) {
    best0 = larger(best0, only(load(x + i + j, n), n, least));
  });
  best0 = larger(best0, best1);
  float best = least;
  for (int lane = 0; lane < lanes; ++lane) best = best0[lane] > best ? best0[lane] : best;
  return best;
}

// e^x: 2^n e^r with |r| at most ln(2)/2, where the polynomial is off by at most 4e-9 of e^r. 0
// below -87.3, infinite above 88.8, NaN for NaN.
inline Floats exponential(Floats x) {
  constexpr float shift = 12582912.0F;  // 1.5 x 2^23: n is in the last bits of the sum
  const Floats shifted = x * 1.44269504F + shift;
  const Floats n = shifted - shift;
  const Floats r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  Floats y = r * 1.38145988e-3F + 8.36871658e-3F;
  y = y * r + 4.1668389e-2F;
  y = y * r + 1.66665211e-1F;
  y = y * r + 4.9999994e-1F;
  y = y * r + 1.0F;
  y = y * r + 1.0F;
#if defined(__AVX512F__)
  // Times 2^n: infinite if n is, even if r and so y are NaN.
  const __mmask16 kept =
      _mm512_cmp_ps_mask(reinterpret_cast<__m512>(x), _mm512_set1_ps(-87.3F), _CMP_NLT_UQ);
  return reinterpret_cast<Floats>(
      _mm512_maskz_scalef_ps(kept, reinterpret_cast<__m512>(y), reinterpret_cast<__m512>(n)));
#else
  y *= reinterpret_cast<Floats>((reinterpret_cast<Words>(shifted) << 23) + (127U << 23));
  y = x < -87.3F ? Floats{} : y;
  return x > 88.3F ? Floats{} + __builtin_inff() : y;
#endif
}

inline Floats square_root(Floats x) {
  for (int lane = 0; lane < lanes; ++lane) x[lane] = __builtin_sqrtf(x[lane]);
  return x;
}

}  // namespace
}  // namespace pipesim::exec
