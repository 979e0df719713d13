// Random words for dropout, many at a time: the same as from random_words().
//
// For cpu_operators.cpp only, hence internal linkage.
#pragma once

#include <cstdint>

#include "exec/device/cpu/vector.h"
#include "exec/device/random.h"

namespace pipesim::exec {
namespace {

// The product of the lower half of each element and `factor`.
inline Longs multiply_lower(Longs x, std::uint32_t factor) {
#if defined(__AVX512F__)
  // With a mask of all: g++ 12 has a false alarm on the plain one (GCC bug 105593).
  return reinterpret_cast<Longs>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(x), _mm512_set1_epi64(factor)));
#elif defined(__AVX2__)
  return reinterpret_cast<Longs>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(x), _mm256_set1_epi64x(factor)));
#elif defined(__SSE2__)
  return reinterpret_cast<Longs>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(x), _mm_set1_epi64x(factor)));
#else
  return (x & 0xffffffffU) * factor;
#endif
}

class RandomChunk {
 public:
  static constexpr std::int64_t most = 512;  // elements in one draw

  // The words of an operator's elements first ... first + count - 1, valid until the next call.
  const std::uint32_t* draw(const RandomKey& key, std::int64_t first, std::int64_t count) {
    const std::int64_t start = key.first + first;
    const std::int64_t ahead = start % 4;
    for (std::int64_t i = 0; i < ahead + count; i += at_once * 4) {
      draw_blocks(key, static_cast<std::uint64_t>((start + i) / 4), words_ + i);
    }
    return words_ + ahead;
  }

 private:
  static constexpr int at_once = lanes / 2;  // blocks of four words

  // philox() with a block in each element; upper halves may hold anything.
  static void draw_blocks(const RandomKey& key, std::uint64_t block, std::uint32_t* words) {
    const RandomWords counter = random_counter(key, block);
    Longs c0;
    Longs c3;
    for (int i = 0; i < at_once; ++i) {
      const std::uint64_t own = block + static_cast<std::uint64_t>(i);
      c0[i] = own & 0xffffffffU;
      c3[i] = own >> 32;
    }
    Longs c1 = Longs{} + counter.word[1];
    Longs c2 = Longs{} + counter.word[2];
    auto key0 = static_cast<std::uint32_t>(key.seed);
    auto key1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const Longs p0 = multiply_lower(c0, philox_factor0);
      const Longs p1 = multiply_lower(c2, philox_factor1);
      c0 = (p1 >> 32) ^ c1 ^ key0;
      c1 = p1;
      c2 = (p0 >> 32) ^ c3 ^ key1;
      c3 = p0;
      key0 += philox_step0;
      key1 += philox_step1;
    }
    const Longs first = (c0 & 0xffffffffU) | (c1 << 32);
    const Longs second = (c2 & 0xffffffffU) | (c3 << 32);
    std::uint64_t pairs[2 * at_once];
    for (int i = 0; i < at_once; ++i) {
      pairs[2 * i] = first[i];
      pairs[2 * i + 1] = second[i];
    }
    __builtin_memcpy(words, pairs, sizeof pairs);
  }

  std::uint32_t words_[most + 4 * at_once];
};

// Applies dropout to a value.
class Keep {
 public:
  // `probability` of dropping, above 0 and at most 1.
  explicit Keep(float probability) : kept_(1 - probability) {
    const double threshold = static_cast<double>(probability) * 0x1p32;  // exact
    last_dropped_ = static_cast<std::uint32_t>(__builtin_ceil(threshold) - 1);
  }

  template <typename Extent>
  Floats operator()(Floats x, const std::uint32_t* words, Extent n) const {
    Words drawn = {};
    __builtin_memcpy(&drawn, words, bytes(n));
    return drawn > last_dropped_ ? x / kept_ : Floats{};
  }

 private:
  static std::size_t bytes(Whole /*all*/) { return sizeof(Words); }
  static std::size_t bytes(Part part) { return bytes_of(part.count); }

  float kept_;
  std::uint32_t last_dropped_;
};

}  // namespace
}  // namespace pipesim::exec
