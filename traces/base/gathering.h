// A table that grows by blocks, without copying its elements, and becomes one vector
// in the end. One owner, one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "traces/base/large_vector.h"

namespace pipesim {

template <typename T>
class Gathering {
 public:
  void push_back(const T& value) {
    if (blocks_.empty() || blocks_.back().size() == blocks_.back().capacity()) add_block();
    blocks_.back().push_back(value);
    ++size_;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Takes all elements out, in order. Each block is freed once it is copied:
  // there is never much more than one copy.
  LargeVector<T> take() {
    LargeVector<T> all;
    all.reserve(size_);
    for (auto& block : blocks_) {
      all.insert(all.end(), block.begin(), block.end());
      block = LargeVector<T>();
    }
    blocks_.clear();
    size_ = 0;
    return all;
  }

 private:
  void add_block() {
    constexpr std::size_t least = 16;
    constexpr std::size_t most = (std::size_t{4} << 20) / sizeof(T);
    blocks_.emplace_back();
    blocks_.back().reserve(std::clamp(size_, least, most));
  }

  std::vector<LargeVector<T>> blocks_;
  std::size_t size_ = 0;
};

}  // namespace pipesim
