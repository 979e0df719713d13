// An iterator over a table that gives its rows by value: table[0], table[1], ...
//
// The table outlives it, and must not grow meanwhile. Plain value; any thread that may read the
// table.
#pragma once

#include <compare>
#include <cstddef>
#include <iterator>

namespace pipesim {

template <typename Table, typename Row>
class PlaceIterator {
 public:
  using iterator_concept = std::random_access_iterator_tag;
  using iterator_category = std::input_iterator_tag;
  using value_type = Row;
  using difference_type = std::ptrdiff_t;
  using reference = Row;
  using pointer = void;

  PlaceIterator() = default;
  PlaceIterator(const Table& table, std::size_t place) : table_(&table), place_(place) {}

  Row operator*() const { return (*table_)[place_]; }
  Row operator[](difference_type by) const { return *(*this + by); }
  PlaceIterator& operator+=(difference_type by) {
    place_ += static_cast<std::size_t>(by);
    return *this;
  }
  PlaceIterator& operator-=(difference_type by) { return *this += -by; }
  PlaceIterator& operator++() { return *this += 1; }
  PlaceIterator& operator--() { return *this -= 1; }
  PlaceIterator operator++(int) {
    const PlaceIterator before = *this;
    ++*this;
    return before;
  }
  PlaceIterator operator--(int) {
    const PlaceIterator before = *this;
    --*this;
    return before;
  }
  friend PlaceIterator operator+(PlaceIterator at, difference_type by) { return at += by; }
  friend PlaceIterator operator+(difference_type by, PlaceIterator at) { return at += by; }
  friend PlaceIterator operator-(PlaceIterator at, difference_type by) { return at -= by; }
  friend difference_type operator-(const PlaceIterator& a, const PlaceIterator& b) {
    return static_cast<difference_type>(a.place_) - static_cast<difference_type>(b.place_);
  }
  bool operator==(const PlaceIterator& other) const { return place_ == other.place_; }
  auto operator<=>(const PlaceIterator& other) const { return place_ <=> other.place_; }

 private:
  const Table* table_ = nullptr;
  std::size_t place_ = 0;
};

}  // namespace pipesim
