// Memory of ranks over time, stored compactly: each distinct state is kept once, however often
// a rank returns to it.
//
// Reads as a list of MemorySample, by value. Plain value; const use is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "traces/base/large_vector.h"
#include "traces/timeline.h"

namespace pipesim {

class MemorySamples {
 public:
  class Iterator;

  MemorySamples() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): another form of the same
  MemorySamples(const std::vector<MemorySample>& samples) {
    for (const MemorySample& sample : samples) push_back(sample);
  }

  void reserve(std::size_t samples) { entries_.reserve(samples); }
  void push_back(const MemorySample& sample);
  void replace(std::size_t index, const MemorySample& sample);
  void append(const MemorySamples& others);
  void clear() { *this = MemorySamples(); }

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
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
  };
  struct Entry {
    std::int64_t time_ns = 0;
    std::int32_t rank = 0;
    std::uint32_t held = 0;
  };
  std::uint32_t place_of(const Held& held);
  Entry entry_of(const MemorySample& sample);

  LargeVector<Entry> entries_;
  std::vector<Held> held_;
  std::vector<std::uint32_t> places_;  // of states, by hash; open addressing
};

class MemorySamples::Iterator {
 public:
  using iterator_concept = std::random_access_iterator_tag;
  using iterator_category = std::input_iterator_tag;
  using value_type = MemorySample;
  using difference_type = std::ptrdiff_t;
  using reference = MemorySample;
  using pointer = void;

  Iterator() = default;
  Iterator(const MemorySamples& samples, std::size_t index) : samples_(&samples), index_(index) {}

  MemorySample operator*() const { return (*samples_)[index_]; }
  MemorySample operator[](difference_type by) const { return *(*this + by); }
  Iterator& operator+=(difference_type by) {
    index_ += static_cast<std::size_t>(by);
    return *this;
  }
  Iterator& operator-=(difference_type by) { return *this += -by; }
  Iterator& operator++() { return *this += 1; }
  Iterator& operator--() { return *this -= 1; }
  Iterator operator++(int) {
    const Iterator before = *this;
    ++*this;
    return before;
  }
  Iterator operator--(int) {
    const Iterator before = *this;
    --*this;
    return before;
  }
  friend Iterator operator+(Iterator at, difference_type by) { return at += by; }
  friend Iterator operator+(difference_type by, Iterator at) { return at += by; }
  friend Iterator operator-(Iterator at, difference_type by) { return at -= by; }
  friend difference_type operator-(const Iterator& a, const Iterator& b) {
    return static_cast<difference_type>(a.index_) - static_cast<difference_type>(b.index_);
  }
  bool operator==(const Iterator& other) const { return index_ == other.index_; }
  auto operator<=>(const Iterator& other) const { return index_ <=> other.index_; }

 private:
  const MemorySamples* samples_ = nullptr;
  std::size_t index_ = 0;
};

inline MemorySamples::Iterator MemorySamples::begin() const { return {*this, 0}; }
inline MemorySamples::Iterator MemorySamples::end() const { return {*this, size()}; }

}  // namespace pipesim
