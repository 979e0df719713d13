#include "exec/model/range.h"

#include <algorithm>

namespace pipesim::exec {

Range common(const Range& one, const Range& other) {
  const std::int64_t begin = std::max(one.begin, other.begin);
  return {begin, std::max(begin, std::min(one.end, other.end))};
}

Range part_of(const Range& whole, int place, int parts) {
  const std::int64_t each = whole.size() / parts;
  return {whole.begin + place * each, whole.begin + (place + 1) * each};
}

std::int64_t Shard::row_size() const {
  std::int64_t size = 0;
  for (const Range& range : columns) size += range.size();
  return size;
}

}  // namespace pipesim::exec
