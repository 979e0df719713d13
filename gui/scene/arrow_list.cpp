#include "gui/scene/arrow_list.h"

#include <algorithm>
#include <cassert>

namespace pipesim::gui {

void ArrowList::push_back(const Arrow& arrow) {
  assert(empty() || arrow.from_ns >= from_ns_[size() - 1]);
  from_ns_.push_back(arrow.from_ns);
  length_ns_.push_back(arrow.to_ns - arrow.from_ns);
  from_group_.push_back(arrow.from_group);
  to_group_.push_back(arrow.to_group);
  trace_.push_back(arrow.trace);
  ref_.push_back(arrow.ref);
  to_ref_.push_back(arrow.to_ref);
  longest_ns_ = std::max(longest_ns_, arrow.length_ns());
}

void ArrowList::shrink_to_fit() {
  for (PackedColumn* column :
       {&from_ns_, &length_ns_, &from_group_, &to_group_, &trace_, &ref_, &to_ref_}) {
    column->shrink_to_fit();
  }
}

Arrow ArrowList::operator[](std::size_t index) const {
  Arrow arrow;
  arrow.from_ns = from_ns_[index];
  arrow.to_ns = arrow.from_ns + length_ns_[index];
  arrow.from_group = static_cast<std::int32_t>(from_group_[index]);
  arrow.to_group = static_cast<std::int32_t>(to_group_[index]);
  arrow.trace = static_cast<std::int32_t>(trace_[index]);
  arrow.ref = static_cast<Ref>(ref_[index]);
  arrow.to_ref = static_cast<Ref>(to_ref_[index]);
  return arrow;
}

}  // namespace pipesim::gui
