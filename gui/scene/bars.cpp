#include "gui/scene/bars.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>

#include "traces/base/prefetch.h"

namespace pipesim::gui {

void BarRow::reserve(std::size_t bars) { blocks_.reserve((bars + block - 1) / block); }

void BarRow::add(const Bar& bar) {
  assert(bar.end_ns >= bar.start_ns && bar.shade < shade_count);
  assert(empty() || bar.start_ns >= end_ns(size() - 1));
  const std::size_t at = size_++ % block;
  if (at == 0) blocks_.emplace_back().from_ns = bar.start_ns;
  Block& in = blocks_.back();
  constexpr std::uint64_t longest = std::numeric_limits<std::uint32_t>::max();
  const auto since = [&](std::int64_t ns) {
    return static_cast<std::uint64_t>(ns) - static_cast<std::uint64_t>(in.from_ns);
  };
  if (in.wide == 0 && since(bar.end_ns) > longest) widen(in, at);
  if (in.wide == 0) {
    in.start_ns[at] = static_cast<std::uint32_t>(since(bar.start_ns));
    in.end_ns[at] = static_cast<std::uint32_t>(since(bar.end_ns));
  } else {
    wide_[in.wide - 1].start_ns[at] = bar.start_ns;
    wide_[in.wide - 1].end_ns[at] = bar.end_ns;
  }
  in.ref[at] = bar.ref;
  in.shade[at] = bar.shade;
}

void BarRow::widen(Block& in, std::size_t bars) {
  WideTimes wide;
  for (std::size_t i = 0; i < bars; ++i) {
    wide.start_ns[i] = start_in(in, i);
    wide.end_ns[i] = end_in(in, i);
  }
  wide_.push_back(wide);
  in.wide = static_cast<std::uint32_t>(wide_.size());
}

void BarRow::finish() {
  blocks_.shrink_to_fit();
  wide_.shrink_to_fit();
  const auto add_bars = [this](const Block& in, std::size_t count, ShadeTimes& to) {
    for (std::size_t i = 0; i < count; ++i) to[in.shade[i]] += end_in(in, i) - start_in(in, i);
  };
  ShadeTimes all{};
  for (std::size_t number = 0; number < blocks_.size(); ++number) {
    add_bars(blocks_[number], bars_in(number), all);
  }
  shades_used_ = 0;
  for (Shade shade = 0; shade < shade_count; ++shade) {
    if (all[shade] > 0) shades_[shades_used_++] = shade;
  }
  block_end_ns_.clear();
  block_end_ns_.reserve(blocks_.size());
  before_.clear();
  before_.reserve((blocks_.size() + 1) * shades_used_);
  stretches_.clear();
  stretches_.reserve((size() + stretch - 1) / stretch);
  instants_.clear();
  ShadeTimes filled{};
  const auto add_sums = [&] {
    for (const Shade shade : shades()) before_.push_back(filled[shade]);
  };
  std::int64_t end_ns = empty() ? 0 : start_ns(0);
  for (std::size_t number = 0; number < blocks_.size(); ++number) {
    const Block& in = blocks_[number];
    add_sums();
    add_bars(in, bars_in(number), filled);
    if (number * block % stretch == 0) stretches_.emplace_back();
    std::int64_t& longest_ns = stretches_.back().longest_ns;
    for (std::size_t i = 0; i < bars_in(number); ++i) {
      const std::int64_t start_ns = start_in(in, i);
      const std::int64_t gap_ns = start_ns - end_ns;
      end_ns = end_in(in, i);
      longest_ns = std::max({longest_ns, gap_ns, end_ns - start_ns});
      if (start_ns == end_ns && !is_bubble(in.shade[i])) {
        instants_.push_back({start_ns, number * block + i});
      }
    }
    block_end_ns_.push_back(end_ns);
    stretches_.back().end_ns = end_ns;
  }
  add_sums();
  instants_.shrink_to_fit();
}

void BarRow::reshade(const std::function<Shade(const Bar&)>& shade_of) {
  for (std::size_t i = 0; i < size(); ++i) shade(i) = shade_of((*this)[i]);
  finish();
}

std::size_t BarRow::first_ending_after(std::int64_t time_ns) const {
  const auto found = std::ranges::upper_bound(block_end_ns_, time_ns);
  if (found == block_end_ns_.end()) return size();
  const auto number = static_cast<std::size_t>(found - block_end_ns_.begin());
  std::size_t at = 0;  // the block ends later, so one of its bars does
  while (end_in(blocks_[number], at) <= time_ns) ++at;
  return number * block + at;
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

std::int64_t BarRow::Sweep::longest_until(std::int64_t time_ns) const {
  std::int64_t longest_ns = 0;
  for (std::size_t at = next_ / stretch; at < row_->stretches_.size(); ++at) {
    const Stretch& here = row_->stretches_[at];
    longest_ns = std::max(longest_ns, here.longest_ns);
    if (here.end_ns > time_ns) return longest_ns;
  }
  return std::numeric_limits<std::int64_t>::max();
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
      for (; row.end_in(in, at) <= time_ns; ++at) {
        filled_[in.shade[at]] += row.end_in(in, at) - row.start_in(in, at);
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
