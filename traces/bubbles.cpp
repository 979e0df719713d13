#include "traces/bubbles.h"

#include <algorithm>

#include "traces/collective_waits.h"

namespace pipesim {
namespace {

// One rank's idle times so far. Splits them as RankAccount does, which only sums them.
class RankIdle {
 public:
  // An action of a cell, its index among the spans, and its last input; times count from the
  // iteration's start.
  struct Part {
    const Span* span;
    std::size_t place;
    std::int64_t sent_ns;
    std::int64_t arrival_ns;
  };
  void work(std::span<const Part> cell, std::int64_t origin_ns) {
    // The last of its inputs counts.
    const Part& waiting = *std::ranges::max_element(cell, {}, &Part::arrival_ns);
    const std::int64_t start = waiting.span->start_ns - origin_ns;
    const std::size_t place = cell.front().place;
    if (start > last_end_ns_) {
      const std::int64_t arrival = std::min(waiting.arrival_ns, start);
      std::int64_t sent = arrival;
      if (arrival > last_end_ns_) {
        sent = std::min(arrival, std::max(last_end_ns_, waiting.sent_ns));
      }
      const bool in_flight = arrival > sent;
      rest(last_end_ns_, in_flight ? sent : start, place);
      if (in_flight) {
        add(BubbleKind::p2p, sent, arrival, place);
        rest(arrival, start, place);
      }
    }
    last_end_ns_ = std::max(last_end_ns_, waiting.span->end_ns - origin_ns);
    for (const Part& part : cell) pass(part.span->action.kind);
  }

  void finish(std::int64_t makespan_ns, std::size_t end_place) {
    add(BubbleKind::drain, last_end_ns_, makespan_ns, end_place);
  }

  const std::vector<IdleSpan>& spans() const { return idle_; }

 private:
  void pass(Kind kind) {
    if (kind == Kind::F) {
      for (; pending_ < idle_.size(); ++pending_) {
        if (idle_[pending_].kind == BubbleKind::drain) idle_[pending_].kind = BubbleKind::steady;
      }
    } else if (is_backward(kind)) {
      backward_started_ = true;
    }
  }

  // Idle time without an input in flight; drain as long as no F comes after it.
  void rest(std::int64_t from_ns, std::int64_t to_ns, std::size_t ended_by) {
    add(backward_started_ ? BubbleKind::drain : BubbleKind::warmup, from_ns, to_ns, ended_by);
  }

  void add(BubbleKind kind, std::int64_t from_ns, std::int64_t to_ns, std::size_t ended_by) {
    if (to_ns > from_ns) idle_.push_back({0, kind, from_ns, to_ns, ended_by});
  }

  std::vector<IdleSpan> idle_;
  std::size_t pending_ = 0;  // earlier ones are not drain
  std::int64_t last_end_ns_ = 0;
  bool backward_started_ = false;
};

}  // namespace

std::vector<IdleSpan> idle_spans(std::span<const Span> spans, int ranks, std::int64_t origin_ns,
                                 std::int64_t makespan_ns) {
  std::vector<RankIdle> accounts(static_cast<std::size_t>(ranks));
  std::vector<RankIdle::Part> cell;
  CollectiveWaits collectives;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const Action& action = span.action;
    if (is_collective(action)) {
      collectives.add(action, span.rank, span.start_ns - origin_ns, span.end_ns - origin_ns,
                      span.input_arrival_ns - origin_ns);
      continue;
    }
    if (!is_compute(action.kind) && !is_closing(action)) continue;
    RankIdle::Part& part = cell.emplace_back(RankIdle::Part{&span, i, 0, 0});
    if (span.has_input()) {
      part.sent_ns = span.input_sent_ns - origin_ns;
      part.arrival_ns = span.input_arrival_ns - origin_ns;
    }
    if (!collectives.empty()) {
      const auto wait = collectives.take(action, span.rank);
      if (wait && wait->arrival_ns > part.arrival_ns) {
        part.sent_ns = wait->since_ns;
        part.arrival_ns = wait->arrival_ns;
      }
    }
    if (action.joined) continue;
    accounts[static_cast<std::size_t>(span.rank)].work(cell, origin_ns);
    cell.clear();
  }
  std::vector<IdleSpan> all;
  std::size_t count = 0;
  for (RankIdle& account : accounts) {
    account.finish(makespan_ns, spans.size());
    count += account.spans().size();
  }
  all.reserve(count);
  for (std::size_t rank = 0; rank < accounts.size(); ++rank) {
    for (IdleSpan idle : accounts[rank].spans()) {
      idle.rank = static_cast<std::int32_t>(rank);
      idle.start_ns += origin_ns;
      idle.end_ns += origin_ns;
      all.push_back(idle);
    }
    accounts[rank] = {};  // there is never much more than one copy
  }
  return all;
}

}  // namespace pipesim
