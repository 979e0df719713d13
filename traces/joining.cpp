#include "traces/joining.h"

#include <algorithm>

namespace pipesim {
namespace {

// Kind, stage and microbatch in one number; max_index fits into 30 bits.
std::uint64_t identity_of(const Action& action) {
  return static_cast<std::uint64_t>(action.kind) << 60 |
         static_cast<std::uint64_t>(action.stage) << 30 |
         static_cast<std::uint64_t>(action.microbatch + 1);
}

}  // namespace

SpanIndex::SpanIndex(std::span<const Span> spans) {
  places_.reserve(spans.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    places_.emplace_back(identity_of(spans[i].action), static_cast<std::uint32_t>(i));
  }
  std::ranges::sort(places_);
}

std::optional<std::size_t> SpanIndex::find(const Action& action) const {
  if (action.stage < 0) return std::nullopt;  // before the first stage is none
  const std::uint64_t identity = identity_of(action);
  const auto found = std::ranges::lower_bound(places_, identity, {},
                                              &std::pair<std::uint64_t, std::uint32_t>::first);
  if (found == places_.end() || found->first != identity) return std::nullopt;
  return found->second;
}

std::vector<std::size_t> SpanIndex::repeated() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 1; i < places_.size(); ++i) {
    if (places_[i].first == places_[i - 1].first) places.push_back(places_[i].second);
  }
  std::ranges::sort(places);
  return places;
}

void join_inputs(std::span<Span> spans, const SpanIndex& index) {
  for (Span& span : spans) {
    const Action& action = span.action;
    if (action.kind != Kind::F && !is_backward(action.kind)) continue;
    const Kind kind = action.kind == Kind::F ? Kind::RECV_F : Kind::RECV_B;
    const Action receive = make_action(action.stage, kind, action.microbatch);
    const auto received = index.find(receive);
    if (!received) continue;
    const auto sent = index.find(peer_of(receive));
    if (!sent) continue;
    span.input_sent_ns = spans[*sent].start_ns;
    span.input_arrival_ns = spans[*received].end_ns;
  }
}

}  // namespace pipesim
