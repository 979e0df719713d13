#include "gui/core/bars.h"

#include <algorithm>
#include <cassert>

namespace pipesim::gui {

void BarRow::reserve(std::size_t bars) {
  start_ns_.reserve(bars);
  end_ns_.reserve(bars);
  ref_.reserve(bars);
  shade_.reserve(bars);
}

void BarRow::add(const Bar& bar) {
  assert(bar.end_ns >= bar.start_ns && bar.shade < shade_count);
  assert(end_ns_.empty() || bar.start_ns >= end_ns_.back());
  start_ns_.push_back(bar.start_ns);
  end_ns_.push_back(bar.end_ns);
  ref_.push_back(bar.ref);
  shade_.push_back(bar.shade);
}

void BarRow::finish() {
  const std::size_t blocks = (size() + block - 1) / block;
  before_.clear();
  before_.reserve(blocks + 1);
  block_end_ns_.clear();
  block_end_ns_.reserve(blocks);
  ShadeTimes filled{};
  for (std::size_t first = 0; first < size(); first += block) {
    before_.push_back(filled);
    const std::size_t end = std::min(first + block, size());
    for (std::size_t i = first; i < end; ++i) filled[shade_[i]] += end_ns_[i] - start_ns_[i];
    block_end_ns_.push_back(end_ns_[end - 1]);
  }
  before_.push_back(filled);
}

void BarRow::reshade(const std::function<Shade(const Bar&)>& shade_of) {
  for (std::size_t i = 0; i < size(); ++i) shade_[i] = shade_of((*this)[i]);
  finish();
}

std::size_t BarRow::first_ending_after(std::int64_t time_ns) const {
  const auto found = std::ranges::upper_bound(block_end_ns_, time_ns);
  if (found == block_end_ns_.end()) return size();
  const auto first = static_cast<std::ptrdiff_t>(block) * (found - block_end_ns_.begin());
  const auto begin = end_ns_.begin() + first;
  const auto end = end_ns_.begin() + std::min(first + static_cast<std::ptrdiff_t>(block),
                                              static_cast<std::ptrdiff_t>(size()));
  return static_cast<std::size_t>(std::upper_bound(begin, end, time_ns) - end_ns_.begin());
}

std::optional<std::size_t> BarRow::at(std::int64_t time_ns) const {
  const std::size_t index = first_ending_after(time_ns);
  if (index == size() || start_ns_[index] > time_ns) return {};
  return index;
}

ShadeTimes BarRow::filled_before(std::int64_t time_ns) const {
  return Sweep(*this).filled_before(time_ns);
}

const ShadeTimes& BarRow::Sweep::filled_before(std::int64_t time_ns) {
  const BarRow& row = *row_;
  filled_[part_shade_] -= part_ns_;
  part_ns_ = 0;
  if (next_ < row.size() && row.end_ns_[next_] <= time_ns) {
    const auto& ends = row.block_end_ns_;
    const std::size_t at = next_ / block;
    if (ends[at] <= time_ns) {
      // Doubles its steps, then halves them: close blocks are found at once.
      std::size_t step = 1;
      while (at + step < ends.size() && ends[at + step] <= time_ns) step *= 2;
      const auto from = ends.begin() + static_cast<std::ptrdiff_t>(at + step / 2);
      const auto to = ends.begin() + static_cast<std::ptrdiff_t>(std::min(at + step, ends.size()));
      const auto found =
          static_cast<std::size_t>(std::upper_bound(from, to, time_ns) - ends.begin());
      filled_ = row.before_[found];
      next_ = std::min(found * block, row.size());
    }
    for (; next_ < row.size() && row.end_ns_[next_] <= time_ns; ++next_) {
      filled_[row.shade_[next_]] += row.end_ns_[next_] - row.start_ns_[next_];
    }
  }
  if (next_ < row.size() && row.start_ns_[next_] < time_ns) {
    part_shade_ = row.shade_[next_];
    part_ns_ = time_ns - row.start_ns_[next_];
    filled_[part_shade_] += part_ns_;
  }
  return filled_;
}

}  // namespace pipesim::gui
