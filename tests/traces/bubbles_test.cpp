// Idle times one by one: they fill what is not busy, and sum to what metrics say.
#include "traces/bubbles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/oracle.h"
#include "tests/random_schedule.h"
#include "tests/recorded.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

using testing::recorded;

using Sums = std::array<std::int64_t, 4>;  // by BubbleKind

std::vector<Sums> sums_of(const std::vector<IdleSpan>& idle, int ranks) {
  std::vector<Sums> sums(static_cast<std::size_t>(ranks));
  for (const IdleSpan& one : idle) {
    sums[static_cast<std::size_t>(one.rank)][static_cast<std::size_t>(one.kind)] +=
        one.end_ns - one.start_ns;
  }
  return sums;
}

Sums sums_of(const Bubble& bubble) {
  return {bubble.warmup_ns, bubble.steady_ns, bubble.drain_ns, bubble.p2p_ns};
}

bool is_work(Kind kind) { return is_compute(kind) || is_closing(make_action(0, kind)); }

// Busy and idle times of each rank cover the iteration once and leave nothing out.
void expect_tiled(std::span<const Span> spans, const std::vector<IdleSpan>& idle, int ranks,
                  std::int64_t from_ns, std::int64_t to_ns) {
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::pair<std::int64_t, std::int64_t>> times;
    std::int64_t last = from_ns;
    for (const IdleSpan& one : idle) {
      if (one.rank != rank) continue;
      ASSERT_LT(one.start_ns, one.end_ns);
      ASSERT_GE(one.start_ns, last) << "sorted, and none in another";
      last = one.end_ns;
      times.emplace_back(one.start_ns, one.end_ns);
    }
    for (const Span& span : spans) {
      if (span.rank != rank || !is_work(span.action.kind)) continue;
      for (const IdleSpan& one : idle) {
        if (one.rank != rank) continue;
        ASSERT_FALSE(span.start_ns < one.end_ns && one.start_ns < span.end_ns)
            << to_text(span.action);
      }
      times.emplace_back(span.start_ns, span.end_ns);
    }
    std::ranges::sort(times);
    std::int64_t covered = from_ns;
    for (const auto& [start, end] : times) {
      ASSERT_LE(start, covered) << "a hole on rank " << rank;
      covered = std::max(covered, end);
    }
    ASSERT_EQ(covered, to_ns);
  }
}

void expect_ends(std::span<const Span> spans, const std::vector<IdleSpan>& idle,
                 std::int64_t end_ns) {
  for (const IdleSpan& one : idle) {
    if (one.ended_by == spans.size()) {
      EXPECT_EQ(one.end_ns, end_ns);
      EXPECT_EQ(one.kind, BubbleKind::drain);
      continue;
    }
    // Of a cell, what arrived last.
    std::size_t last = one.ended_by;
    for (std::size_t i = last; spans[i].action.joined; ++i) {
      if (spans[i + 1].input_arrival_ns > spans[last].input_arrival_ns) last = i + 1;
    }
    const Span& next = spans[last];
    EXPECT_EQ(next.start_ns, spans[one.ended_by].start_ns);
    EXPECT_EQ(next.rank, one.rank);
    EXPECT_GE(next.start_ns, one.end_ns);
    if (one.kind == BubbleKind::p2p) {
      EXPECT_GE(one.start_ns, next.input_sent_ns);
      EXPECT_LE(one.end_ns, next.input_arrival_ns);
    } else if (next.has_input()) {
      EXPECT_GE(std::max(one.start_ns, next.input_sent_ns),
                std::min(one.end_ns, next.input_arrival_ns))
          << "an input was on its way";
    }
  }
}

void expect_all(const RecordedRun& run) {
  for (std::size_t i = 0; i < run.iterations.size(); ++i) {
    const RecordedIteration& own = run.iterations[i];
    const auto spans = run.spans_of(own);
    const Metrics metrics = run.metrics(i);
    const auto idle = idle_spans(spans, run.ranks, own.start_ns, metrics.makespan_ns);
    const auto sums = sums_of(idle, run.ranks);
    for (std::size_t rank = 0; rank < sums.size(); ++rank) {
      ASSERT_EQ(sums[rank], sums_of(metrics.ranks[rank].bubble)) << "rank " << rank;
    }
    const std::int64_t end_ns = own.start_ns + metrics.makespan_ns;
    expect_tiled(spans, idle, run.ranks, own.start_ns, end_ns);
    expect_ends(spans, idle, end_ns);
  }
}

TEST(Bubbles, AreThoseOfTheOracleOnRandomSchedules) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    const Costs costs = testing::without_bytes(testing::random_costs(random, schedule));
    const auto expected = oracle::run(schedule, costs);
    ASSERT_TRUE(expected.has_value());
    const RecordedRun run = recorded(schedule, costs);
    const auto idle = idle_spans(run.spans_of(run.iterations[0]), run.ranks, 0, expected->makespan);
    const auto sums = sums_of(idle, run.ranks);
    for (std::size_t rank = 0; rank < sums.size(); ++rank) {
      const oracle::Rank& own = expected->ranks[rank];
      ASSERT_EQ(sums[rank], (Sums{own.warmup, own.steady, own.drain, own.p2p}));
    }
    expect_all(run);
  }
}

TEST(Bubbles, FillTheIterationUnderEveryModeOfTransfer) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    SimulationOptions options;
    options.transfers.mode = std::array{P2p::async, P2p::blocking, P2p::fifo,
                                        P2p::edge_fifo}[static_cast<std::size_t>(i) % 4];
    RecordedRun run;
    try {
      run = recorded(schedule, testing::random_costs(random, schedule), "run", options);
    } catch (const Error&) {
      continue;  // one order of all transfers may deadlock
    }
    expect_all(run);
  }
}

TEST(Bubbles, OfEveryFamily) {
  int generated = 0;
  for (const Family& family : all_families()) {
    for (const int ranks : {1, 2, 4}) {
      ScheduleRequest request{std::string(family.name), ranks, 8, {}, {}, {}};
      Schedule schedule;
      try {
        schedule = generate(request);
      } catch (const Error&) {
        continue;  // a shape that it does not have
      }
      expect_all(recorded(schedule, testing::costs_of(schedule.stages(), 100, 200, 30)));
      ++generated;
    }
  }
  EXPECT_GE(generated, 2 * static_cast<int>(all_families().size()));
}

// Spans that overlap, clocks that disagree: times that no schedule has.
TEST(Bubbles, OfTimesThatNoScheduleHas) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    RecordedRun run = recorded(schedule, testing::random_costs(random, schedule));
    for (Span& span : run.spans) {
      span.action.joined = false;
      span.start_ns += testing::pick(random, 0, 500);
      span.end_ns = span.start_ns + testing::pick(random, 0, 900);
      if (span.has_input()) span.input_arrival_ns += testing::pick(random, -300, 300);
    }
    testing::shift_clock(run, 0, testing::pick(random, -2000, 2000));
    const RecordedIteration& own = run.iterations[0];
    const Metrics metrics = run.metrics(0);
    const auto idle = idle_spans(run.spans_of(own), run.ranks, own.start_ns, metrics.makespan_ns);
    const auto sums = sums_of(idle, run.ranks);
    for (std::size_t rank = 0; rank < sums.size(); ++rank) {
      ASSERT_EQ(sums[rank], sums_of(metrics.ranks[rank].bubble));
    }
    expect_tiled(run.spans_of(own), idle, run.ranks, own.start_ns,
                 own.start_ns + metrics.makespan_ns);
  }
}

TEST(Bubbles, OfRecordedRuns) {
  for (const char* name : {"1f1b", "interleaved", "zb-h1", "gpipe"}) {
    const std::string path = testing::source_file(std::string("traces/recorded/") + name);
    const RecordedRun run = read_run({path + ".rank0.json.gz", path + ".rank1.json.gz"});
    ASSERT_EQ(run.iterations.size(), 3U);
    expect_all(run);
  }
}

// By hand: 0F0 0F1 0B0 0B1 on one rank and 1F0 1B0 1F1 1B1 on the other, F 2, B 4, and
// a hop of 1.
TEST(Bubbles, AreSplitWhereAnInputTravels) {
  const Schedule schedule = generate(ScheduleRequest{"1f1b", 2, 2, {}, {}, {}});
  const RecordedRun run = recorded(schedule, testing::costs_of(2, 2, 4, 1));
  // rank 0: F0 0-2, F1 2-4, B0 8-12 (sent 7), B1 14-18; rank 1: F0 3-5, B0 5-9 ...
  const RecordedIteration& own = run.iterations[0];
  const auto spans = run.spans_of(own);
  std::string text;
  for (const IdleSpan& one : idle_spans(spans, 2, 0, own.makespan_ns)) {
    text += std::to_string(one.rank) + " " + std::to_string(one.start_ns) + "-" +
            std::to_string(one.end_ns) + " " +
            std::array{"warmup", "steady", "drain", "p2p"}[static_cast<std::size_t>(one.kind)] +
            " " + (one.ended_by == spans.size() ? "end" : to_text(spans[one.ended_by].action)) +
            "\n";
  }
  EXPECT_EQ(text,
            "0 4-9 warmup 0B0\n"
            "0 9-10 p2p 0B0\n"
            "0 14-15 drain 0B1\n"
            "0 15-16 p2p 0B1\n"
            "1 0-2 warmup 1F0\n"
            "1 2-3 p2p 1F0\n"
            "1 15-20 drain end\n");
}

}  // namespace
}  // namespace pipesim
