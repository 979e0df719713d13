#include "traces/arrivals.h"

#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

#include "traces/dependency.h"
#include "traces/joining.h"

namespace pipesim {
namespace {

// The messages of one kind from one stage: the same way, the same bytes.
struct Direction {
  std::vector<std::int64_t> seen;  // what those took that were seen as they came
  std::int64_t least_ns = std::numeric_limits<std::int64_t>::max();  // of any, since it was sent
  std::optional<std::int64_t> otherwise_ns;                          // the longest of the other run

  std::int64_t usual_ns() const {
    if (seen.empty()) return std::min(least_ns, otherwise_ns.value_or(least_ns));
    return seen[median_of(seen)];
  }
};

using WayKey = std::pair<std::int32_t, Kind>;
WayKey way_of(const Message& message) { return {message.send.stage, message.send.kind}; }

// What a receiver did.
struct Busy {
  std::int64_t start_ns;
  std::int64_t end_ns;
};

}  // namespace

void separate_arrivals(std::span<Message> messages) {
  std::map<WayKey, Direction> ways;
  for (const Message& own : messages) {
    Direction& way = ways[way_of(own)];
    way.least_ns = std::min(way.least_ns, own.end_ns - own.sent_ns);
    if (!own.busy_until_ns) way.seen.push_back(own.end_ns - own.start_ns);
    if (own.otherwise_ns) {
      way.otherwise_ns = std::max(way.otherwise_ns.value_or(0), *own.otherwise_ns);
    }
  }
  // A rank that stood still for it behind what it was busy with has seen it come, unless it took
  // from then on what it takes anyway: then it was fetched.
  std::map<WayKey, std::vector<std::int64_t>> seen_later;
  for (const Message& own : messages) {
    if (!own.busy_until_ns || own.end_ns - *own.busy_until_ns <= seen_at_once_ns) continue;
    const Direction& way = ways[way_of(own)];
    const std::int64_t since_sent = own.end_ns - own.sent_ns;
    const std::int64_t since_free = own.end_ns - *own.busy_until_ns;
    const std::int64_t usual = way.seen.empty() ? way.least_ns : way.usual_ns();
    const bool was_fetched = std::abs(since_free - usual) < std::abs(since_sent - usual);
    if (!was_fetched) seen_later[way_of(own)].push_back(since_sent);
  }
  for (auto& [key, seen] : seen_later) {
    auto& all = ways[key].seen;
    all.insert(all.end(), seen.begin(), seen.end());
  }
  std::map<WayKey, std::int64_t> usual_of;
  for (const auto& [key, way] : ways) usual_of[key] = way.usual_ns();
  for (Message& own : messages) {
    if (!own.busy_until_ns) continue;
    const std::int64_t since_sent = own.end_ns - own.sent_ns;
    const std::int64_t since_free = std::max<std::int64_t>(0, own.end_ns - *own.busy_until_ns);
    const std::int64_t usual = usual_of[way_of(own)];
    const bool was_seen = since_free > seen_at_once_ns &&
                          std::abs(since_sent - usual) <= std::abs(since_free - usual);
    const std::int64_t took =
        was_seen ? since_sent : std::min(since_sent, std::max(usual, since_free));
    own.is_assumed = !was_seen;
    own.start_ns = own.sent_ns;
    own.end_ns = own.sent_ns + took;
  }
}

bool has_late_looks(const RunDescription& about) {
  return about.source == Source::measured &&
         (about.transport == "mpi" || about.transport == "tcp" || about.transport == "local");
}

std::span<const Span> told_spans(const RecordedRun& run, const RecordedIteration& iteration,
                                 std::vector<Span>& storage) {
  const std::span<const Span> recorded = run.spans_of(iteration);
  if (!has_late_looks(run.about)) return recorded;
  storage.assign(recorded.begin(), recorded.end());
  const SpanIndex index(recorded);
  std::vector<std::vector<Busy>> work(static_cast<std::size_t>(run.ranks));
  for (const Span& span : recorded) {
    if (is_communication(span.action)) continue;
    work[static_cast<std::size_t>(span.rank)].push_back({span.start_ns, span.end_ns});
  }
  std::vector<Message> messages;
  std::vector<std::size_t> receivers;  // places among the spans
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const Span& span = recorded[i];
    if (!makes_result(span.action.kind) || !span.has_input()) continue;
    const Action receive = receive_for(span.action);
    const auto received = index.find(receive);
    if (!received) continue;
    Message& own = messages.emplace_back(Message{peer_of(receive),
                                                 span.input_sent_ns,
                                                 recorded[*received].start_ns,
                                                 span.input_arrival_ns,
                                                 {},
                                                 {}});
    own.busy_until_ns =
        last_end_before(work[static_cast<std::size_t>(span.rank)], own.end_ns, &Busy::start_ns,
                        [](const Busy& one) { return one.end_ns; });
    if (own.busy_until_ns && *own.busy_until_ns <= own.sent_ns) own.busy_until_ns.reset();
    receivers.push_back(i);
  }
  separate_arrivals(messages);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    storage[receivers[i]].input_arrival_ns = messages[i].end_ns;
  }
  return storage;
}

}  // namespace pipesim
