#include "traces/base/packed_column.h"

#include <algorithm>
#include <bit>

namespace pipesim {

void PackedColumn::close_block() {
  const auto [least, most] = std::ranges::minmax(open_);
  const std::uint64_t range = static_cast<std::uint64_t>(most) - static_cast<std::uint64_t>(least);
  const auto needed = static_cast<std::uint64_t>(std::bit_width(range));
  constexpr std::size_t behind = sizeof(std::uint64_t);
  const std::size_t first = bytes_.empty() ? 0 : bytes_.size() - behind;
  Block made;
  made.least = least;
  made.first = first & 0xff'ffff'ffff'ffff;
  made.bits = (needed > 56 ? 64 : needed) & 0xff;
  blocks_.push_back(made);
  if (made.bits == 0) return;
  bytes_.resize(first + block / 8 * made.bits + behind);
  for (std::size_t i = 0; i < block; ++i) {
    const std::size_t bit = i * made.bits;
    unsigned char* const at = bytes_.data() + first + bit / 8;
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    word |= (static_cast<std::uint64_t>(open_[i]) - static_cast<std::uint64_t>(least)) << bit % 8;
    std::memcpy(at, &word, sizeof word);
  }
}

std::size_t PackedColumn::first_from(std::size_t index, std::int64_t value) const {
  // The last block that starts below the value, in steps that double; of blocks that never
  // descend the least is the first.
  std::size_t low = index / block;
  const std::size_t count = blocks_.size();
  std::size_t step = 1;
  while (low + step < count && blocks_[low + step].least < value) step *= 2;
  std::size_t high = std::min(low + step, count);
  low += step / 2;
  while (low + 1 < high) {
    const std::size_t middle = low + (high - low) / 2;
    (blocks_[middle].least < value ? low : high) = middle;
  }
  if (high == count && count * block < size_ && open_[0] < value) low = count;
  std::size_t first = std::max(index, low * block);
  std::size_t last = std::min((low + 1) * block, size_);
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if ((*this)[middle] < value) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

}  // namespace pipesim
