#include "gui/scene/bars.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "traces/base/prefetch.h"

namespace pipesim::gui {

void BarRow::reserve(std::size_t bars) { blocks_.reserve((bars + block - 1) / block); }

void BarRow::add(const Bar& bar) {
  assert(bar.end_ns >= bar.start_ns && bar.shade < shade_count);
  assert(empty() || bar.start_ns >= end_ns(size() - 1));
  const std::size_t at = size_++ % block;
  if (at == 0) blocks_.emplace_back();
  Block& in = blocks_.back();
  in.start_ns[at] = bar.start_ns;
  in.end_ns[at] = bar.end_ns;
  in.ref[at] = bar.ref;
  in.shade[at] = bar.shade;
}

void BarRow::finish() {
  const auto add_bars = [this](std::size_t number, ShadeTimes& to) {
    const Block& in = blocks_[number];
    const std::size_t count = std::min(size() - number * block, block);
    for (std::size_t i = 0; i < count; ++i) to[in.shade[i]] += in.end_ns[i] - in.start_ns[i];
    return in.end_ns[count - 1];
  };
  ShadeTimes all{};
  for (std::size_t number = 0; number < blocks_.size(); ++number) add_bars(number, all);
  shades_used_ = 0;
  for (Shade shade = 0; shade < shade_count; ++shade) {
    if (all[shade] > 0) shades_[shades_used_++] = shade;
  }
  block_end_ns_.clear();
  block_end_ns_.reserve(blocks_.size());
  before_.clear();
  before_.reserve((blocks_.size() + 1) * shades_used_);
  ShadeTimes filled{};
  instants_.clear();
  const auto add_instants = [this](std::size_t number) {
    const Block& in = blocks_[number];
    const std::size_t count = std::min(size() - number * block, block);
    for (std::size_t i = 0; i < count; ++i) {
      if (in.start_ns[i] < in.end_ns[i] || is_bubble(in.shade[i])) continue;
      instants_.push_back({in.start_ns[i], number * block + i});
    }
  };
  const auto add_sums = [&] {
    for (const Shade shade : shades()) before_.push_back(filled[shade]);
  };
  for (std::size_t number = 0; number < blocks_.size(); ++number) {
    add_sums();
    block_end_ns_.push_back(add_bars(number, filled));
    add_instants(number);
  }
  add_sums();
}

void BarRow::reshade(const std::function<Shade(const Bar&)>& shade_of) {
  for (std::size_t i = 0; i < size(); ++i) shade(i) = shade_of((*this)[i]);
  finish();
}

std::size_t BarRow::first_ending_after(std::int64_t time_ns) const {
  const auto found = std::ranges::upper_bound(block_end_ns_, time_ns);
  if (found == block_end_ns_.end()) return size();
  const auto number = static_cast<std::size_t>(found - block_end_ns_.begin());
  const auto begin = blocks_[number].end_ns.begin();
  const std::size_t count = std::min(size() - number * block, block);
  return number * block +
         static_cast<std::size_t>(
             std::upper_bound(begin, begin + static_cast<std::ptrdiff_t>(count), time_ns) - begin);
}

std::optional<std::size_t> BarRow::at(std::int64_t time_ns) const {
  const std::size_t index = first_ending_after(time_ns);
  if (index == size() || start_ns(index) > time_ns) return {};
  return index;
}

ShadeTimes BarRow::filled_before(std::int64_t time_ns) const {
  return Sweep(*this).filled_before(time_ns);
}

// To the first block that ends after `time_ns`, which that of next_ does not.
void BarRow::Sweep::jump(std::int64_t time_ns) {
  const BarRow& row = *row_;
  const auto& ends = row.block_end_ns_;
  const std::size_t at = next_ / block;
  // Step by step, then in steps that double: close blocks are found at once.
  std::size_t found = at + 1;
  const std::size_t close = std::min(at + 12, ends.size());
  while (found < close && ends[found] <= time_ns) ++found;
  if (found == close && close < ends.size()) {
    std::size_t step = 1;
    while (found + step < ends.size() && ends[found + step] <= time_ns) step *= 2;
    const auto from = ends.begin() + static_cast<std::ptrdiff_t>(found + step / 2);
    const auto to = ends.begin() + static_cast<std::ptrdiff_t>(std::min(found + step, ends.size()));
    found = static_cast<std::size_t>(std::upper_bound(from, to, time_ns) - ends.begin());
  }
  const std::size_t used = row.shades_used_;
  for (std::size_t i = 0; i < used; ++i) {
    filled_[row.shades_[i]] = row.before_[found * used + i];
  }
  next_ = std::min(found * block, row.size());
}

// Fetches what the sweep comes to after two more steps like the last ones: nothing
// else foresees it.
void BarRow::Sweep::look_ahead(std::size_t moved) {
  const BarRow& row = *row_;
  pace_ = pace_ == 0 ? moved : (3 * pace_ + moved) / 4;
  const std::size_t guess = (next_ + 2 * pace_) / block;
  prefetch_ahead(row.before_.data(), guess * row.shades_used_);
  const auto* blocks = reinterpret_cast<const char*>(row.blocks_.data());
  for (std::size_t byte = 0; byte < offsetof(Block, ref); byte += 64) {
    prefetch_ahead(blocks, guess * sizeof(Block) + byte);
  }
}

const ShadeTimes& BarRow::Sweep::filled_before(std::int64_t time_ns) {
  const BarRow& row = *row_;
  filled_[part_shade_] -= part_ns_;
  part_ns_ = 0;
  if (next_ < row.size() && row.end_ns(next_) <= time_ns) {
    const std::size_t last = next_;
    const bool far = row.block_end_ns_[next_ / block] <= time_ns;
    if (far) jump(time_ns);
    if (next_ < row.size()) {  // within the block, which ends later
      const Block& in = row.blocks_[next_ / block];
      std::size_t at = next_ % block;
      for (; in.end_ns[at] <= time_ns; ++at) {
        filled_[in.shade[at]] += in.end_ns[at] - in.start_ns[at];
      }
      next_ = next_ / block * block + at;
    }
    if (far) look_ahead(next_ - last);
  }
  if (next_ < row.size() && row.start_ns(next_) < time_ns) {
    const Bar bar = row[next_];
    part_shade_ = bar.shade;
    part_ns_ = time_ns - bar.start_ns;
    filled_[part_shade_] += part_ns_;
  }
  return filled_;
}

}  // namespace pipesim::gui
