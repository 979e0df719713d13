// The time that bytes take at a rate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace pipesim {

// The time that `bytes` occupy a link: ceil(bytes x 1e9 / bytes_per_second),
// at most the largest that 64 bits hold.
constexpr std::int64_t occupied_ns(std::int64_t bytes, std::int64_t bytes_per_second) {
  constexpr std::int64_t short_enough = 4'000'000'000;  // for 64 bits
  if (bytes < short_enough && bytes_per_second < short_enough * 1'000'000'000) {
    return (bytes * 1'000'000'000 + bytes_per_second - 1) / bytes_per_second;
  }
  __extension__ using Wide = __int128;
  constexpr Wide longest = std::numeric_limits<std::int64_t>::max();
  const Wide scaled = static_cast<Wide>(bytes) * 1'000'000'000 + bytes_per_second - 1;
  return static_cast<std::int64_t>(std::min(scaled / bytes_per_second, longest));
}

}  // namespace pipesim
