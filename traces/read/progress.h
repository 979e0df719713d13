// How far the reading of files is. Plain functions; any thread.
#pragma once

#include <cstddef>
#include <functional>

namespace pipesim {

// Told the share of the files' bytes that is read, from time to time: a hundred
// times a file at most. What it throws ends the reading.
using ReadProgress = std::function<void(double share)>;

// Of the `index`-th of `count` files that are read one after the other.
inline ReadProgress part_of(const ReadProgress& whole, std::size_t index, std::size_t count) {
  if (!whole || count == 1) return whole;
  return [whole, index, count](double share) {
    whole((static_cast<double>(index) + share) / static_cast<double>(count));
  };
}

}  // namespace pipesim
