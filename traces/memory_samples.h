// Memory of ranks over time, stored compactly: each distinct state of a rank is kept once,
// however often it returns to it.
//
// Reads as a list of MemorySample, by value. Plain value; const use is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "traces/base/large_vector.h"
#include "traces/base/packed_column.h"
#include "traces/base/place_iterator.h"
#include "traces/timeline.h"

namespace pipesim {

class MemorySamples {
 public:
  using Iterator = PlaceIterator<MemorySamples, MemorySample>;

  MemorySamples() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): another form of the same
  MemorySamples(const std::vector<MemorySample>& samples) {
    for (const MemorySample& sample : samples) push_back(sample);
  }

  void reserve(std::size_t samples) { held_by_.reserve(samples); }
  void push_back(const MemorySample& sample);
  // By one of the same time.
  void replace(std::size_t index, const MemorySample& sample);
  void append(const MemorySamples& others);
  void clear() { *this = MemorySamples(); }

  std::size_t size() const { return held_by_.size(); }
  bool empty() const { return held_by_.empty(); }
  MemorySample operator[](std::size_t index) const;
  MemorySample back() const { return (*this)[size() - 1]; }
  Iterator begin() const;
  Iterator end() const;

  // Stable.
  void sort_by_time();
  // Drops the samples of ranks outside [0, ranks); returns how many.
  std::size_t drop_other_ranks(int ranks);

 private:
  struct Held {
    StateBytes states;
    WorkingBytes working;
    std::int64_t chunks = 0;
    std::int64_t rank = 0;
  };
  std::uint32_t place_of(const MemorySample& sample);

  // Of each sample its time, and the place of what is held, and by whom.
  PackedColumn times_ns_;
  LargeVector<std::uint32_t> held_by_;
  std::vector<Held> held_;
  std::vector<std::uint32_t> places_;  // of states, by hash; open addressing
};

inline MemorySamples::Iterator MemorySamples::begin() const { return {*this, 0}; }
inline MemorySamples::Iterator MemorySamples::end() const { return {*this, size()}; }

}  // namespace pipesim
