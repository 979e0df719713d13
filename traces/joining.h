// Which span is which action's, within one iteration, and what follows from it:
// the two ends of a transfer belong together, and to the action that waits.
//
// Plain functions of their arguments; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "traces/action_key.h"
#include "traces/timeline.h"

namespace pipesim {

// Finds the spans of one iteration by what they are. Knows places only: good as long as
// no span changes its place.
class SpanIndex {
 public:
  struct Entry {
    ActionKey key;
    std::uint32_t place = 0;
    auto operator<=>(const Entry&) const = default;
  };

  explicit SpanIndex(std::span<const Span> spans);

  // Sorted; of spans whose action is the same the first alone.
  std::span<const Entry> entries() const { return entries_; }
  // The places of the others, ascending.
  const std::vector<std::size_t>& repeated() const { return repeated_; }

  // The place of an action's span.
  std::optional<std::size_t> find(const Action& action) const;
  // The same, where a B stands for an I, too, as in dependency.h.
  std::optional<std::size_t> find_either(const Action& action) const;

 private:
  std::vector<Entry> entries_;
  std::vector<std::size_t> repeated_;
};

// For each F, B and I whose input came by a transfer with both ends among the
// spans: when it was sent, which is the SEND's start, and when it arrived, the
// RECV's end.
void join_inputs(std::span<Span> spans, const SpanIndex& index);

}  // namespace pipesim
