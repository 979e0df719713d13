// Progress of reading files. Plain functions; any thread.
#pragma once

#include <cstddef>
#include <functional>

namespace pipesim {

// Called from time to time with the share of the files' bytes read so far: at most a hundred times
// per file. An exception from it ends the reading.
using ReadProgress = std::function<void(double share)>;

// For the `index`-th of `count` files that are read one after the other.
inline ReadProgress part_of(const ReadProgress& whole, std::size_t index, std::size_t count) {
  if (!whole || count == 1) return whole;
  return [whole, index, count](double share) {
    whole((static_cast<double>(index) + share) / static_cast<double>(count));
  };
}

}  // namespace pipesim
