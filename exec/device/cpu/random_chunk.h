// Random words for dropout, many at a time: the same as random_words() gives.
//
// For cpu_operators.cpp alone, hence all of internal linkage.
#pragma once

#include <cstdint>

#include "exec/device/cpu/vector.h"
#include "exec/device/random.h"

namespace pipesim::exec {
namespace {

class RandomChunk {
 public:
  static constexpr std::int64_t most = 512;  // elements in one draw

  // The words of elements first ... first + count - 1, until the next call.
  const std::uint32_t* draw(const RandomKey& key, std::int64_t first, std::int64_t count) {
    const std::int64_t ahead = first % 4;
    for (std::int64_t i = 0; i < ahead + count; i += at_once * 4) {
      draw_blocks(key, static_cast<std::uint32_t>((first + i) / 4), words_ + i);
    }
    return words_ + ahead;
  }

 private:
  static constexpr int at_once = 16;  // blocks of four words

  // The loop over blocks is left to the compiler to vectorise.
  static void draw_blocks(const RandomKey& key, std::uint32_t block, std::uint32_t* words) {
    for (int i = 0; i < at_once; ++i) {
      const RandomWords four = random_words(key, block + static_cast<std::uint32_t>(i));
      for (int j = 0; j < 4; ++j) words[4 * i + j] = four.word[j];
    }
  }

  std::uint32_t words_[most + 4 * at_once];
};

// What dropout makes of a value.
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
