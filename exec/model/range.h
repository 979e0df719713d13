// Ranges of numbers, and a tensor-parallel rank's shard of a matrix. Plain values and pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace pipesim::exec {

// Numbers [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};
// The intersection of two ranges, possibly empty.
Range common(const Range& one, const Range& other);
// Part `place` of a range divided into `parts`.
Range part_of(const Range& whole, int place, int parts);

// A tensor-parallel rank's part of a matrix: some rows, and some columns of these.
struct Shard {
  std::int64_t width = 0;  // columns of the whole
  Range rows;
  std::vector<Range> columns;  // ascending

  std::int64_t row_size() const;
  std::int64_t size() const { return rows.size() * row_size(); }
  bool operator==(const Shard&) const = default;
};

}  // namespace pipesim::exec
