// Ranges of numbers, and what a tensor-parallel rank has of a matrix. Plain values and pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace pipesim::exec {

// Numbers [begin, end) of something.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};
// What two have in common, or an empty one.
Range common(const Range& one, const Range& other);
// The part at a place of a range that so many divide.
Range part_of(const Range& whole, int place, int parts);

// What a tensor-parallel rank has of a matrix: some rows, and of them some columns.
struct Shard {
  std::int64_t width = 0;  // columns of the whole
  Range rows;
  std::vector<Range> columns;  // ascending

  std::int64_t row_size() const;
  std::int64_t size() const { return rows.size() * row_size(); }
  bool operator==(const Shard&) const = default;
};

}  // namespace pipesim::exec
