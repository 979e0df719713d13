// Each rank's idle times one by one, by cause; Bubble (metrics.h) sums them.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "traces/input_run.h"
#include "traces/timeline.h"

namespace pipesim {

enum class BubbleKind : std::uint8_t { warmup, steady, drain, p2p };
// By BubbleKind.
inline constexpr std::array<std::string_view, 4> bubble_names{"warm-up", "steady", "drain", "p2p"};

// A rank's idle time within the makespan, with one cause; idle time during part of which
// an input was in flight becomes two or three of them.
struct IdleSpan {
  std::int32_t rank = 0;
  BubbleKind kind = BubbleKind::steady;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  // Index among the spans, for an overlapped cell its first; spans.size() at the end
  // of the iteration.
  std::size_t ended_by = 0;
};

// For one iteration's spans, sorted by start; `origin_ns` is the first start of an action
// other than a transfer, and `makespan_ns` the time to the last end. The result is sorted by (rank,
// start), with the spans' times. Sums by rank and kind are those of measure().
std::vector<IdleSpan> idle_spans(std::span<const Span> spans, int ranks, std::int64_t origin_ns,
                                 std::int64_t makespan_ns);

// Of one rank of an input pipeline, in the order of time; ended_by is not set. Sums by kind are
// those of input_bubbles(), but for exchanges on the compute stream itself, which count as p2p.
std::vector<IdleSpan> idle_spans(const InputRun& inputs, int rank);

}  // namespace pipesim
