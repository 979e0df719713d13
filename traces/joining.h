// Which span is which action's, within one iteration, and what follows from it:
// the two ends of a transfer belong together, and to the action that waits.
//
// Plain functions of their arguments; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "traces/timeline.h"

namespace pipesim {

// Finds the spans of one iteration by (kind, stage, microbatch). Knows places
// only: good as long as no span changes its place.
class SpanIndex {
 public:
  explicit SpanIndex(std::span<const Span> spans);

  // The place of an action's span; of several the first.
  std::optional<std::size_t> find(const Action& action) const;
  // The places of spans whose action has an earlier one, ascending.
  std::vector<std::size_t> repeated() const;

 private:
  std::vector<std::pair<std::uint64_t, std::uint32_t>> places_;  // sorted by (action, place)
};

// For each F, B and I whose input came by a transfer with both ends among the
// spans: when it was sent, which is the SEND's start, and when it arrived, the
// RECV's end.
void join_inputs(std::span<Span> spans, const SpanIndex& index);

}  // namespace pipesim
