// A subset of an array's elements: those of a shard, and of these, counted
// consecutively, a range.
//
// The whole is a parameter as on one rank without replicas, counted
// row by row. So an array cut by one layout can be assembled in any other. Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/model/parameters.h"

namespace pipesim::exec {

struct Numbers {
  Shard shard;
  Range range;  // of the shard's numbers

  static Numbers all(std::int64_t size) { return {{size, {0, 1}, {{0, size}}}, {0, size}}; }
  // A range of a rank's numbers of a parameter.
  static Numbers of(const Parameter& parameter, const Range& range);

  std::int64_t size() const { return range.size(); }
  // Their range in the whole, if they are contiguous there.
  std::optional<Range> in_whole() const;
  // Their ranges in the whole, ascending.
  std::vector<Range> runs_in_whole() const;
  bool operator==(const Numbers&) const = default;
};

// "[0:64]" of the whole; or "[24;0:8;0:4,8:12;0:64]": of rows of 24 numbers the first 8, of these
// columns 0 to 3 and 8 to 11, and of those the first 64.
std::string to_text(const Numbers& numbers);
// Nothing if the text is malformed, or its ranges are empty, out of order or out of bounds.
std::optional<Numbers> parse_numbers(std::string_view text);

// Copies the common numbers; returns how many. Pointers are to the first of each.
std::int64_t copy_common(const Numbers& from, const float* source, const Numbers& to,
                         float* destination);
// The same, added to the destination.
std::int64_t add_common(const Numbers& from, const float* source, const Numbers& to,
                        float* destination);

}  // namespace pipesim::exec
