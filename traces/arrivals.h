// When messages arrived, told apart from when their receiver looked (METRICS.md, "What a message
// took, and what it waited for").
//
// pipeexec's hosts look for messages between actions: a rank that computes, or that pauses before
// it goes on, sees its own messages late, and the recorded RECV shows when it looked. A message
// that arrives while its receiver is idle is seen at once; the others on its way, with the same
// bytes, are only known to have taken no longer than recorded: they are assumed to have been as
// fast. Metrics, idle times and comparisons all count by this. Pure functions; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "traces/recorded_run.h"

namespace pipesim {

// A rank that waits for a message sees it this soon after it has come; one that was busy sees it
// as soon as it is free.
inline constexpr std::int64_t seen_at_once_ns = 30'000;

struct Message {
  Action send;                // messages of one stage and kind are on one way
  std::int64_t sent_ns = 0;   // the start of the SEND
  std::int64_t start_ns = 0;  // from when both ends were there
  std::int64_t end_ns = 0;    // when its receiver saw it
  // Until when the receiver was busy behind the departure; nothing where it was not.
  std::optional<std::int64_t> busy_until_ns;
  std::optional<std::int64_t> otherwise_ns;  // what it took in another run, if that is known
  bool is_assumed = false;                   // as fast as others, not seen
};

// Puts messages with busy receivers back to when they arrived.
void separate_arrivals(std::span<Message> messages);

// Until when a receiver was busy behind a message's departure. Its `work` is sorted by start;
// what it began last before it saw the message counts, of none `before`: the end of its work in
// the iteration before, if that is known.
template <typename Work, typename StartOf, typename EndOf>
std::optional<std::int64_t> last_end_before(const Work& work, std::int64_t seen_ns,
                                            const StartOf& start_of, const EndOf& end_of,
                                            std::optional<std::int64_t> before = {}) {
  const auto next = std::ranges::lower_bound(work, seen_ns, {}, start_of);
  if (next == std::ranges::begin(work)) return before;
  return end_of(*(next - 1));
}

// Whether hosts look for the messages of such a run.
bool has_late_looks(const RunDescription& about);

// The spans of an iteration of the run, the arrivals of inputs told by the messages of this
// iteration alone. Refers to the run's, or, where they differ, to `storage`.
std::span<const Span> told_spans(const RecordedRun& run, const RecordedIteration& iteration,
                                 std::vector<Span>& storage);

}  // namespace pipesim
