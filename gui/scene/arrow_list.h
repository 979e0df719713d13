// Arrows between the groups of a scene, in the order in which they start.
//
// Reads as a list of Arrow, by value, of which each takes a few bytes. Plain value; const use is
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "gui/scene/bars.h"
#include "traces/base/packed_column.h"
#include "traces/base/place_iterator.h"

namespace pipesim::gui {

// From one group to another; positions in time as drawn, offsets included.
struct Arrow {
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;
  std::int32_t from_group = 0;
  std::int32_t to_group = 0;
  std::int32_t trace = 0;
  Ref ref = no_ref;     // the span that is sent, the slice where it starts
  Ref to_ref = no_ref;  // the span that waits for it

  std::int64_t length_ns() const { return to_ns < from_ns ? from_ns - to_ns : to_ns - from_ns; }
};

class ArrowList {
 public:
  using Iterator = PlaceIterator<ArrowList, Arrow>;

  ArrowList() = default;
  ArrowList(std::initializer_list<Arrow> arrows) {
    for (const Arrow& arrow : arrows) push_back(arrow);
  }

  // Starts no earlier than the last one.
  void push_back(const Arrow& arrow);
  void shrink_to_fit();

  std::size_t size() const { return from_ns_.size(); }
  bool empty() const { return from_ns_.empty(); }
  Arrow operator[](std::size_t index) const;
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

  // The first that starts at an instant or later; size() where none does.
  std::size_t first_from(std::int64_t time_ns) const { return from_ns_.first_from(0, time_ns); }
  // Of the longest, whichever way it goes.
  std::int64_t longest_ns() const { return longest_ns_; }

 private:
  PackedColumn from_ns_, length_ns_, from_group_, to_group_, trace_, ref_, to_ref_;
  std::int64_t longest_ns_ = 0;
};

}  // namespace pipesim::gui
