// A column of int64 in as few bits as it needs: each block of 64 values keeps the
// least of them and how far the others are above it, in bits of one width.
//
// Times, places and sizes that follow each other are close: a few bytes each. Any value has a
// place, the worst takes 8 bytes. Appended to, then read in any order, in O(1). Plain value;
// const use is thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "traces/base/large_vector.h"

namespace pipesim {

class PackedColumn {
 public:
  static constexpr std::size_t block = 64;

  void push_back(std::int64_t value) {
    open_[size_++ % block] = value;
    if (size_ % block == 0) close_block();
  }
  // Frees what it grew into and does not need. It may grow on.
  void shrink_to_fit() {
    blocks_.shrink_to_fit();
    bytes_.shrink_to_fit();
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t operator[](std::size_t index) const {
    const std::size_t number = index / block;
    if (number == blocks_.size()) return open_[index % block];
    return value_in(blocks_[number], index % block);
  }
  // Calls use(value) for each of [first, last), in order, in less time.
  template <typename Use>
  void each(std::size_t first, std::size_t last, const Use& use) const {
    while (first < last) {
      const std::size_t number = first / block;
      const std::size_t end = std::min(last, (number + 1) * block);
      if (number == blocks_.size()) {
        for (; first < end; ++first) use(open_[first % block]);
        continue;
      }
      const Block in = blocks_[number];
      for (; first < end; ++first) use(value_in(in, first % block));
    }
  }
  // Of a column that never descends: the first place from `index` on of a value that is no
  // less; size() where there is none. In O(1) where it is close.
  std::size_t first_from(std::size_t index, std::int64_t value) const;

 private:
  // In bytes_ from `first` on; of 0 bits all are the least, and 57 to 63 are none: a value of up
  // to 56 bits is within the 8 bytes from the one in which it starts, one of 64 is them.
  struct Block {
    std::int64_t least = 0;
    std::uint64_t first : 56 = 0;
    std::uint64_t bits : 8 = 0;
  };

  std::int64_t value_in(const Block& in, std::size_t at) const {
    if (in.bits == 0) return in.least;
    const std::size_t bit = at * in.bits;
    std::uint64_t word = 0;
    std::memcpy(&word, bytes_.data() + in.first + bit / 8, sizeof word);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(in.least) +
                                     (word >> bit % 8 & mask(in.bits)));
  }
  static std::uint64_t mask(std::uint64_t bits) { return ~std::uint64_t{0} >> (64 - bits); }
  void close_block();

  LargeVector<Block> blocks_;
  LargeVector<unsigned char> bytes_;  // and 8 more than there are values in
  std::size_t size_ = 0;
  std::array<std::int64_t, block> open_{};  // of the last block, which is not full
};

}  // namespace pipesim
