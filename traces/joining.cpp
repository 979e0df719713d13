#include "traces/joining.h"

#include <algorithm>

#include "traces/dependency.h"

namespace pipesim {

namespace {

// An exchange with replicas has no microbatch; in its place is its rank, since two ranks may hold
// one stage, as DualPipe's do.
ActionKey key_of(Action action, std::int32_t rank) {
  if (is_collective(action)) action.microbatch = rank;
  return ActionKey(action);
}

}  // namespace

SpanIndex::SpanIndex(std::span<const Span> spans) {
  entries_.reserve(spans.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    entries_.push_back({key_of(spans[i].action, spans[i].rank), static_cast<std::uint32_t>(i)});
  }
  std::ranges::sort(entries_);
  std::size_t kept = 0;
  for (const Entry& entry : entries_) {
    if (kept > 0 && entries_[kept - 1].key == entry.key) {
      repeated_.push_back(entry.place);
    } else {
      entries_[kept++] = entry;
    }
  }
  entries_.resize(kept);
  std::ranges::sort(repeated_);
}

std::optional<std::size_t> SpanIndex::find(const Action& action, std::int32_t rank) const {
  if (action.stage < 0) return std::nullopt;  // there is none before the first stage
  const ActionKey key = key_of(action, rank);
  const auto found = std::ranges::lower_bound(entries_, key, {}, &Entry::key);
  if (found == entries_.end() || found->key != key) return std::nullopt;
  return found->place;
}

std::optional<std::size_t> SpanIndex::find_either(const Action& action) const {
  const auto found = find(action);
  if (found || action.kind != Kind::B) return found;
  return find(make_action(action.stage, Kind::I, action.microbatch));
}

void join_inputs(std::span<Span> spans, const SpanIndex& index) {
  for (Span& span : spans) {
    if (!makes_result(span.action.kind)) continue;
    const Action receive = receive_for(span.action);
    const auto received = index.find(receive);
    if (!received) continue;
    const auto sent = index.find(peer_of(receive));
    if (!sent) continue;
    span.input_sent_ns = spans[*sent].start_ns;
    span.input_arrival_ns = spans[*received].end_ns;
  }
}

}  // namespace pipesim
