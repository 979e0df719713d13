// Maps actions to spans within one iteration, and so joins
// the two ends of a transfer with each other and with the action that waits.
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

// Finds the spans of one iteration by action, exchanges with replicas also by rank. Stores indices:
// valid as long as no span moves.
class SpanIndex {
 public:
  struct Entry {
    ActionKey key;
    std::uint32_t place = 0;
    auto operator<=>(const Entry&) const = default;
  };

  explicit SpanIndex(std::span<const Span> spans);

  // Sorted; only the first of spans with the same action.
  std::span<const Entry> entries() const { return entries_; }
  // The indices of the others, ascending.
  const std::vector<std::size_t>& repeated() const { return repeated_; }

  // The index of an action's span; of an exchange with replicas, that of this rank.
  std::optional<std::size_t> find(const Action& action, std::int32_t rank = 0) const;
  // The same, but a B also matches an I, as in dependency.h.
  std::optional<std::size_t> find_either(const Action& action) const;

 private:
  std::vector<Entry> entries_;
  std::vector<std::size_t> repeated_;
};

// For each F, B and I whose input came by a transfer with both ends among the
// spans: when it was sent, the SEND's start, and when it arrived, the
// RECV's end.
void join_inputs(std::span<Span> spans, const SpanIndex& index);

}  // namespace pipesim
