// Counter-based random numbers: a draw depends only on its purpose, not on
// who draws it or when, so neither the partition nor recomputation nor
// the order of microbatches changes a result.
//
// The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). Plain functions, also for kernels of
// any device; they keep internal linkage, since kernels are compiled once for
// each instruction set.
#pragma once

#include <cstdint>

#if defined(__CUDACC__) || defined(__HIP__)
#define PIPESIM_ANYWHERE __host__ __device__
#else
#define PIPESIM_ANYWHERE
#endif

namespace pipesim::exec {

// The purpose of the numbers.
enum class Purpose : std::uint32_t { initial_weights, dropout, batch };

// One stream of numbers, from an element on: an operator's element i is element `first` + i of the
// stream, so that a part of a whole draws the same numbers. Counter words: the lower half of
// element / 4, (purpose, site, layer), step, the upper half; the seed is the key.
struct RandomKey {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::dropout;
  std::uint32_t site = 0;   // distinguishes uses within one layer, below 256
  std::uint32_t layer = 0;  // below 2^20
  std::uint32_t step = 0;
  std::int64_t first = 0;  // for normal numbers a multiple of 4
};

struct RandomWords {
  std::uint32_t word[4];
};

constexpr std::uint32_t philox_factor0 = 0xD2511F53U;
constexpr std::uint32_t philox_factor1 = 0xCD9E8D57U;
constexpr std::uint32_t philox_step0 = 0x9E3779B9U;
constexpr std::uint32_t philox_step1 = 0xBB67AE85U;

struct WideProduct {
  std::uint32_t upper;
  std::uint32_t lower;
};

PIPESIM_ANYWHERE static inline WideProduct wide_product(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  return {__umulhi(a, b), a * b};
#else
  const std::uint64_t all = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(all >> 32), static_cast<std::uint32_t>(all)};
#endif
}

// The generator itself: four words by counter and key.
PIPESIM_ANYWHERE static inline RandomWords philox(const RandomWords& counter, std::uint32_t key0,
                                                  std::uint32_t key1) {
  RandomWords c = counter;
  for (int round = 0; round < 10; ++round) {
    const WideProduct p0 = wide_product(philox_factor0, c.word[0]);
    const WideProduct p1 = wide_product(philox_factor1, c.word[2]);
    c = {{p1.upper ^ c.word[1] ^ key0, p1.lower, p0.upper ^ c.word[3] ^ key1, p0.lower}};
    key0 += philox_step0;
    key1 += philox_step1;
  }
  return c;
}

PIPESIM_ANYWHERE static inline RandomWords random_counter(const RandomKey& key,
                                                          std::uint64_t block) {
  const std::uint32_t use = static_cast<std::uint32_t>(key.purpose) << 28 |
                            (key.site & 255U) << 20 | (key.layer & 0xfffffU);
  return {
      {static_cast<std::uint32_t>(block), use, key.step, static_cast<std::uint32_t>(block >> 32)}};
}

// The four words of elements 4 x block ... 4 x block + 3 of the stream, for any `first`.
PIPESIM_ANYWHERE static inline RandomWords random_words(const RandomKey& key, std::uint64_t block) {
  return philox(random_counter(key, block), static_cast<std::uint32_t>(key.seed),
                static_cast<std::uint32_t>(key.seed >> 32));
}

}  // namespace pipesim::exec
