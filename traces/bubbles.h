// The idle times of each rank one by one, by cause: what Bubble (metrics.h) sums.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "traces/timeline.h"

namespace pipesim {

enum class BubbleKind : std::uint8_t { warmup, steady, drain, p2p };
// By BubbleKind.
inline constexpr std::array<std::string_view, 4> bubble_names{"warm-up", "steady", "drain", "p2p"};

// Idle time of a rank within the makespan, of one cause; an idle time of which a part
// was spent on an input's way is two or three of them.
struct IdleSpan {
  std::int32_t rank = 0;
  BubbleKind kind = BubbleKind::steady;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  // Place among the spans, of an overlapped cell of its first; spans.size() at the end
  // of the iteration.
  std::size_t ended_by = 0;
};

// Of one iteration's spans, sorted by start, of which `origin_ns` is the first start of an action
// that is no transfer and `makespan_ns` the time to the last end; sorted by (rank,
// start), times as the spans have them. Sums by rank and kind are those of measure().
std::vector<IdleSpan> idle_spans(std::span<const Span> spans, int ranks, std::int64_t origin_ns,
                                 std::int64_t makespan_ns);

}  // namespace pipesim
