// A message arrives when it does, and not when a rank that computed or paused looked for it.
#include "traces/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "sim/compare/comparison.h"
#include "traces/bubbles.h"
#include "traces/flame/stacks.h"
#include "traces/joining.h"

namespace pipesim {
namespace {

constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t look_ns = 10'000;  // until a free rank has seen what is there

// Two stages, GPipe's order: F of 10 ms, B of 20 ms on rank 1 and 18 ms on rank 0, messages of
// 1 ms. Rank 1 is behind by a pause before its second F, and sees the other messages when it looks
// again.
RecordedRun with_pause(std::int64_t pause_ns, const std::string& transport) {
  RecordedRun run;
  run.name = "paused";
  run.about.source = Source::measured;
  run.about.transport = transport;
  run.about.rank_of_stage = {0, 1};
  run.ranks = 2;
  run.microbatches = 3;
  run.chunk_of_stage = {0, 0};
  const auto add = [&](int rank, Kind kind, int microbatch, std::int64_t start, std::int64_t end) {
    Span& span = run.spans.emplace_back();
    span.action = make_action(rank, kind, microbatch);
    span.rank = rank;
    span.start_ns = start;
    span.end_ns = end;
  };
  const auto message = [&](Kind kind, int stage, int microbatch, std::int64_t sent,
                           std::int64_t seen) {
    const Action send = make_action(stage, kind, microbatch);
    add(stage, kind, microbatch, sent, sent + ms);
    const Action receive = peer_of(send);
    add(receive.stage, receive.kind, microbatch, sent, seen);
  };
  // A SEND stands before what its rank does next. 1F0 waits for its message; those of 1F1 and 1F2
  // come while it computes and pauses.
  message(Kind::SEND_F, 0, 0, 10 * ms, 11 * ms);
  message(Kind::SEND_F, 0, 1, 20 * ms, 21 * ms + look_ns);
  const std::int64_t second = 21 * ms + pause_ns;
  message(Kind::SEND_F, 0, 2, 30 * ms, second + 10 * ms + look_ns);
  for (int m = 0; m < 3; ++m) add(0, Kind::F, m, m * 10 * ms, (m + 1) * 10 * ms);
  add(1, Kind::F, 0, 11 * ms, 21 * ms);
  add(1, Kind::F, 1, second, second + 10 * ms);
  const std::int64_t third = second + 10 * ms + look_ns;
  add(1, Kind::F, 2, third, third + 10 * ms);
  std::int64_t at = third + 10 * ms;
  for (int m = 0; m < 3; ++m, at += 20 * ms) {
    add(1, Kind::B, m, at, at + 20 * ms);
    message(Kind::SEND_B, 1, m, at + 20 * ms, at + 21 * ms);
    add(0, Kind::B, m, at + 21 * ms, at + 39 * ms);
  }
  std::ranges::stable_sort(run.spans, {},
                           [](const Span& span) { return std::pair(span.start_ns, span.rank); });
  find_iterations(run);
  join_inputs(std::span(run.spans.data(), run.spans.size()),
              SpanIndex({run.spans.data(), run.spans.size()}));
  return run;
}

TEST(Arrivals, APauseOfTheReceiverIsNoMessage) {
  const std::int64_t pause = 100 * ms;
  for (const char* transport : {"local", "mpi", "tcp"}) {
    const Metrics metrics = with_pause(pause, transport).metrics(0);
    // Of the three messages to rank 1, the first alone holds it up. The others were there before.
    EXPECT_EQ(metrics.ranks[1].bubble.p2p_ns, ms) << transport;
    EXPECT_EQ(metrics.ranks[1].bubble.warmup_ns, 10 * ms + pause + look_ns);
    // 0F0, a message, 1F0, the pause, 1F1, a look, 1F2, three backwards, a message, 0B2.
    EXPECT_EQ(metrics.critical_path.compute_ns, (10 + 30 + 60 + 18) * ms);
    EXPECT_EQ(metrics.critical_path.p2p_ns, 2 * ms);
    EXPECT_EQ(metrics.critical_path.other_ns, pause + look_ns);
  }
  // A link that works on its own records when messages arrived.
  EXPECT_EQ(with_pause(pause, "nccl").metrics(0).critical_path.other_ns, 0);
}

// Where a rank is idle, it sees a message as it comes: all of that is the message's.
TEST(Arrivals, ASlowMessageToAnIdleRankIsAMessage) {
  RecordedRun run = with_pause(0, "local");
  const std::int64_t slow = 40 * ms;
  for (Span& span : run.spans) {
    if (span.rank != 0 || span.action.microbatch != 2) continue;
    if (span.action.kind == Kind::RECV_B) span.end_ns += slow;
    if (span.action.kind != Kind::B) continue;
    span.start_ns += slow;
    span.end_ns += slow;
    span.input_arrival_ns += slow;
  }
  find_iterations(run);
  EXPECT_EQ(run.metrics(0).critical_path.p2p_ns, 2 * ms + slow);
}

// The picture of idle times, the flame graph and a comparison count as the report does.
TEST(Arrivals, AllCountAlike) {
  const RecordedRun run = with_pause(100 * ms, "local");
  const RecordedIteration& iteration = run.iterations.front();
  const Metrics metrics = run.metrics(0);
  std::vector<Span> storage;
  std::int64_t in_flight = 0;
  for (const IdleSpan& idle : idle_spans(told_spans(run, iteration, storage), run.ranks,
                                         iteration.start_ns, iteration.makespan_ns)) {
    if (idle.rank == 1 && idle.kind == BubbleKind::p2p) in_flight += idle.end_ns - idle.start_ns;
  }
  EXPECT_EQ(in_flight, metrics.ranks[1].bubble.p2p_ns);

  StackCollector collector;
  collector.add(run);
  const Stacks stacks = collector.take();
  bool names_the_pause = false;
  for (const StackFrame& frame : stacks.frames) {
    names_the_pause = names_the_pause || frame.name == "waits for no input";
  }
  EXPECT_TRUE(names_the_pause);

  const RecordedRun planned = with_pause(0, "local");
  const Comparison comparison = compare(planned, run);
  const SideResult& side = comparison.sides[measured_side];
  for (std::size_t rank = 0; rank < metrics.ranks.size(); ++rank) {
    EXPECT_EQ(side.ranks[rank].bubble.by_kind(), metrics.ranks[rank].bubble.by_kind());
  }
  EXPECT_EQ(side.critical_path.p2p_ns, metrics.critical_path.p2p_ns);
  EXPECT_EQ(side.critical_path.other_ns, metrics.critical_path.other_ns);
  EXPECT_EQ(comparison.gap[Term::launch], comparison.gap.total_ns());
}

// Of the messages that were not seen as they came the usual time of the others counts.
TEST(Arrivals, TakesTheUsualTimeOfTheWay) {
  const Action send = make_action(0, Kind::SEND_F, 0);
  std::vector<Message> messages;
  for (const std::int64_t took : {3 * ms, 1 * ms, 2 * ms}) {
    messages.push_back({send, 0, 0, took, {}, {}});
  }
  messages.push_back({send, 10 * ms, 10 * ms, 50 * ms, 50 * ms - look_ns, {}});
  // Seen while its receiver stood still behind what it was busy with.
  messages.push_back({send, 10 * ms, 10 * ms, 12 * ms, 11 * ms, {}});
  // Of another way, of which nothing is known but this.
  messages.push_back({make_action(1, Kind::SEND_F, 0), 0, 0, 7 * ms, 7 * ms - look_ns, 4 * ms});
  separate_arrivals(messages);
  EXPECT_EQ(messages[0].end_ns, 3 * ms);
  EXPECT_EQ(messages[3].end_ns, 10 * ms + 2 * ms);
  EXPECT_TRUE(messages[3].is_assumed);
  EXPECT_EQ(messages[4].end_ns, 12 * ms);
  EXPECT_FALSE(messages[4].is_assumed);
  EXPECT_EQ(messages[5].end_ns, 4 * ms);
}

}  // namespace
}  // namespace pipesim
