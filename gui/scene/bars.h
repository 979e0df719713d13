// Consecutive bars, and how much of any interval they fill: one row
// of a timeline with its levels of detail.
//
// Prefix sums of busy time by shade, one per block of bars, give exactly how much
// of a pixel each shade fills, for any number of bars. Plain values; const
// use is thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "traces/base/large_vector.h"

namespace pipesim::gui {

// The meaning of the colours of work.
enum class Colouring : std::uint8_t { kind, microbatch, error };

// A bar's shade: the index of a colour in the palette (gui/layout/palette.h).
// 0 to 7 depend on the colouring; the others mean the same under every one.
using Shade = std::uint8_t;
inline constexpr int shade_count = 41;
inline constexpr Shade first_bubble_shade = 8;  // warm-up, steady, drain, p2p
inline constexpr Shade critical_shade = 12;
inline constexpr Shade late_shade = 13;  // of curves of lateness
inline constexpr Shade early_shade = 14;
inline constexpr Shade wait_shade = 16;  // of an input pipeline: what waits
// By kind: F, I, W and B, each in so many steps ever lighter, of a rank's later chunks.
inline constexpr Shade first_lighter_shade = 17;
inline constexpr int lighter_steps = 6;

constexpr bool is_bubble(Shade shade) {
  return shade >= first_bubble_shade && shade < first_bubble_shade + 4;
}

constexpr bool is_lighter(Shade shade) { return shade >= first_lighter_shade; }
// That of the first chunk; of any other shade itself.
constexpr Shade full_shade(Shade shade) {
  return is_lighter(shade) ? static_cast<Shade>((shade - first_lighter_shade) % 4) : shade;
}

// What bars refer to: a span of a run, a slice of an event trace; for a bubble the
// span that ends it.
using Ref = std::uint32_t;
inline constexpr Ref no_ref = 0xffffffff;

struct Bar {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  Ref ref = no_ref;
  Shade shade = 0;

  bool operator==(const Bar&) const = default;
};

// Nanoseconds by shade.
using ShadeTimes = std::array<std::int64_t, shade_count>;

class BarRow {
 public:
  void reserve(std::size_t bars);
  // Starts where the last bar ended or later, and ends no earlier than it starts.
  void add(const Bar& bar);
  // After the last bar: builds the sums, without which nothing below works.
  void finish();
  // Gives each bar another shade and builds the sums anew; bubbles are asked for, too.
  void reshade(const std::function<Shade(const Bar&)>& shade_of);

  std::size_t size() const { return size_; }
  bool empty() const { return size() == 0; }
  Bar operator[](std::size_t index) const {
    const Block& in = blocks_[index / block];
    const std::size_t at = index % block;
    return {start_in(in, at), end_in(in, at), in.ref[at], in.shade[at]};
  }
  std::int64_t start_ns(std::size_t index) const {
    return start_in(blocks_[index / block], index % block);
  }
  std::int64_t end_ns(std::size_t index) const {
    return end_in(blocks_[index / block], index % block);
  }

  // Those of which a bar takes any time, ascending.
  std::span<const Shade> shades() const { return {shades_.data(), shades_used_}; }
  bool has(Shade shade) const {
    return std::find(shades().begin(), shades().end(), shade) != shades().end();
  }

  // A bar of no length that is no bubble, such as an event's mark.
  struct Instant {
    std::int64_t time_ns = 0;
    std::size_t bar = 0;
  };
  // In order.
  std::span<const Instant> instants() const { return instants_; }

  // The first bar that ends after `time_ns`; size() where none does.
  std::size_t first_ending_after(std::int64_t time_ns) const;
  // The bar that covers an instant, its end excluded.
  std::optional<std::size_t> at(std::int64_t time_ns) const;
  // The time that bars fill before an instant, exactly.
  ShadeTimes filled_before(std::int64_t time_ns) const;

  // The same at instants that ascend, in much less time: O(1) where they are close.
  class Sweep {
   public:
    explicit Sweep(const BarRow& row) : row_(&row) {}
    // `time_ns` no earlier than the last one.
    const ShadeTimes& filled_before(std::int64_t time_ns);
    // The first bar that ends after the last instant asked for.
    std::size_t next() const { return next_; }
    // No bar, and no time between two, that is partly between that instant and a later one is
    // longer than this; where the row ends before, nothing is known.
    std::int64_t longest_until(std::int64_t time_ns) const;

   private:
    void jump(std::int64_t time_ns);
    void look_ahead(std::size_t moved);

    const BarRow* row_;
    std::size_t next_ = 0;
    std::size_t pace_ = 0;  // bars a step, lately
    ShadeTimes filled_{};   // of all bars before next_, and `part_ns_` of next_ itself
    std::int64_t part_ns_ = 0;
    Shade part_shade_ = 0;
  };

 private:
  // So many bars are next to each other in memory, since they are looked at together. Times
  // count from the block's first start; where that is too long before they are in wide_.
  static constexpr std::size_t block = 16;
  struct Block {
    std::int64_t from_ns = 0;
    std::uint32_t wide = 0;  // a place there, from 1; 0 is none
    std::array<std::uint32_t, block> end_ns{};
    std::array<std::uint32_t, block> start_ns{};
    std::array<Shade, block> shade{};
    std::array<Ref, block> ref{};
  };
  struct WideTimes {
    std::array<std::int64_t, block> end_ns{};
    std::array<std::int64_t, block> start_ns{};
  };
  // So many blocks, and what is longest in them: a bar, or the time before one.
  static constexpr std::size_t stretch = 16 * block;
  struct Stretch {
    std::int64_t end_ns = 0;
    std::int64_t longest_ns = 0;
  };

  std::int64_t start_in(const Block& in, std::size_t at) const {
    return in.wide == 0 ? in.from_ns + in.start_ns[at] : wide_[in.wide - 1].start_ns[at];
  }
  std::int64_t end_in(const Block& in, std::size_t at) const {
    return in.wide == 0 ? in.from_ns + in.end_ns[at] : wide_[in.wide - 1].end_ns[at];
  }
  std::size_t bars_in(std::size_t number) const { return std::min(size() - number * block, block); }
  void widen(Block& in, std::size_t bars);
  Shade& shade(std::size_t index) { return blocks_[index / block].shade[index % block]; }

  LargeVector<Block> blocks_;
  std::vector<WideTimes> wide_;
  std::vector<Stretch> stretches_;
  std::size_t size_ = 0;
  std::array<Shade, shade_count> shades_{};
  std::size_t shades_used_ = 0;
  // For each block its last end, and what all bars before it fill, by shades(); at the end
  // what all bars do.
  LargeVector<std::int64_t> block_end_ns_;
  LargeVector<std::int64_t> before_;
  LargeVector<Instant> instants_;
};

}  // namespace pipesim::gui
