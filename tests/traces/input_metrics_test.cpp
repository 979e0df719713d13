// What is busy, exposed and hidden, on timelines told on paper, and by another definition.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>

#include "tests/input_runs.h"
#include "traces/input_run.h"
#include "traces/recorded_run.h"

namespace pipesim {
namespace {

using enum Kind;

// A rank's calls by hand, with their times.
class Timeline {
 public:
  // Called, issued, ready, start, end; on the stream after `after`.
  Timeline& call(InputStream stream, Kind kind, std::int32_t batch, InputSpan span,
                 std::vector<std::uint32_t> after = {}) {
    calls_.push_back({input_action(kind, batch), stream, std::move(after)});
    spans_.push_back(span);
    return *this;
  }
  void add_to(InputRun& run) const {
    run.program.calls.push_back(calls_);
    run.spans.push_back(spans_);
  }

 private:
  InputCalls calls_;
  std::vector<InputSpan> spans_;
};

InputMetrics measured(const Timeline& timeline, int batches = 1) {
  InputRun run;
  run.program.batches = batches;
  timeline.add_to(run);
  return measure(run);
}

std::int64_t of(const InputTimes& times, Kind kind) {
  return times[static_cast<std::size_t>(kind)];
}
std::int64_t sum(const InputTimes& times) {
  return std::accumulate(times.begin(), times.end(), std::int64_t{0});
}
std::int64_t sum(const InputMetrics::Rank& rank) {
  return rank.busy_ns + sum(rank.exposed) + rank.host_ns + rank.skew_ns + rank.drain_ns +
         rank.other_ns;
}

TEST(InputMetrics, AWaitIsGivenToWhatItTook) {
  // The compute stream waits from 0 to 60 for a batch to be taken (5), for its copy to be called
  // (3), and for the copy (40); the ids' 12 behind it are on the critical way, too.
  const InputMetrics metrics =
      measured(Timeline()
                   .call(InputStream::host, NEXT, 0, {0, 5, 0, 0, 5})
                   .call(InputStream::memcpy, COPY, 0, {5, 8, 8, 8, 48})
                   .call(InputStream::data_dist, IDS, 0, {8, 9, 48, 48, 60}, {1})
                   .call(InputStream::compute, LOOKUP, 0, {9, 10, 60, 60, 90}, {2})
                   .call(InputStream::compute, TOP, 0, {10, 11, 90, 90, 100})
                   .call(InputStream::memcpy, COPY, 1, {11, 12, 48, 48, 88}),
               2);
  const InputMetrics::Rank& rank = metrics.ranks[0];
  EXPECT_EQ(metrics.makespan_ns, 100);
  EXPECT_EQ(rank.busy_ns, 40);
  EXPECT_EQ(of(rank.busy_by_kind, LOOKUP), 30);
  EXPECT_EQ(of(rank.busy_by_kind, TOP), 10);
  EXPECT_EQ(of(rank.exposed, NEXT), 5);
  EXPECT_EQ(of(rank.exposed, COPY), 40);
  EXPECT_EQ(of(rank.exposed, IDS), 12);
  EXPECT_EQ(rank.host_ns, 3);
  EXPECT_EQ(rank.skew_ns + rank.drain_ns + rank.other_ns, 0);
  EXPECT_EQ(of(rank.total, COPY), 80);  // of which the second one is hidden
  EXPECT_EQ(rank.hidden_ns(COPY), 40);
  EXPECT_EQ(rank.hidden_ns(LOOKUP), 0);
  EXPECT_EQ(sum(rank), 100);
}

TEST(InputMetrics, TheHostThatBlocksIsFollowedToWhatItWaitedFor) {
  // The host reads splits that take from 20 to 50, 4 to read them, 2 to call the exchange of ids.
  // Rank 1 comes to the splits 8 earlier: there it is skew.
  InputRun run;
  run.program.batches = 1;
  const auto rank = [&](std::int64_t copied) {
    Timeline()
        .call(InputStream::memcpy, COPY, 0, {0, 1, 1, 1, copied})
        .call(InputStream::data_dist, SPLITS, 0, {1, 2, copied, 20, 50}, {0})
        .call(InputStream::host, READ, 0, {2, 54, 50, 50, 54}, {1})
        .call(InputStream::data_dist, IDS, 0, {54, 56, 56, 56, 70})
        .call(InputStream::compute, LOOKUP, 0, {56, 57, 70, 70, 80}, {3})
        .call(InputStream::compute, OUTPUT, 0, {57, 58, 80, 80, 95})
        .add_to(run);
  };
  rank(20);
  rank(12);
  const InputMetrics metrics = measure(run);
  for (int i = 0; i < 2; ++i) {
    const InputMetrics::Rank& own = metrics.ranks[static_cast<std::size_t>(i)];
    EXPECT_EQ(of(own.exposed, COPY), i == 0 ? 19 : 11);
    EXPECT_EQ(own.skew_ns, i == 0 ? 0 : 8);
    EXPECT_EQ(of(own.exposed, SPLITS), 30);
    EXPECT_EQ(of(own.exposed, READ), 4);
    EXPECT_EQ(of(own.exposed, IDS), 14);
    EXPECT_EQ(of(own.exposed, OUTPUT), 15);  // on the compute stream
    EXPECT_EQ(own.host_ns, 1 + 2);
    EXPECT_EQ(own.busy_ns, 10);
    EXPECT_EQ(own.other_ns, 0);
    EXPECT_EQ(sum(own), 95);
  }
}

TEST(InputMetrics, WhatEndsLateIsExplainedNoFurtherThanTheWait) {
  // The copy began while the compute stream was busy: only its last 20 are exposed. What ran on
  // beyond the last compute is drain.
  const InputMetrics metrics =
      measured(Timeline()
                   .call(InputStream::memcpy, COPY, 0, {0, 0, 0, 0, 10})
                   .call(InputStream::compute, BOTTOM, 0, {0, 0, 10, 10, 50}, {0})
                   .call(InputStream::memcpy, COPY, 1, {0, 1, 30, 30, 70})
                   .call(InputStream::compute, BOTTOM, 1, {1, 2, 70, 70, 75}, {2})
                   .call(InputStream::memcpy, COPY, 2, {2, 3, 70, 70, 82}),
               3);
  const InputMetrics::Rank& rank = metrics.ranks[0];
  EXPECT_EQ(of(rank.exposed, COPY), 10 + 20);
  EXPECT_EQ(rank.hidden_ns(COPY), 20 + 12);
  EXPECT_EQ(rank.drain_ns, 7);
  EXPECT_EQ(sum(rank), 82);
}

TEST(InputMetrics, AMeasuredRunMayStartLateAndOverlap) {
  // The launch is seen 3 after it was issued, starts 2 after it was ready; the second overlaps
  // the first by 1, and was issued after it had started.
  const InputMetrics metrics =
      measured(Timeline()
                   .call(InputStream::host, NEXT, 0, {4, 10, 4, 4, 10})
                   .call(InputStream::compute, BOTTOM, 0, {12, 14, 17, 19, 30})
                   .call(InputStream::compute, LOOKUP, 0, {26, 31, 29, 29, 40})
                   .call(InputStream::compute, TOP, 0, {40, 47, 45, 45, 50}));
  const InputMetrics::Rank& rank = metrics.ranks[0];
  EXPECT_EQ(of(rank.exposed, NEXT), 6);
  EXPECT_EQ(rank.other_ns, 3 + 2);
  EXPECT_EQ(rank.host_ns, 4 + 2 + 2 + 5);  // not begun; between calls; to call BOTTOM and TOP
  EXPECT_EQ(rank.busy_ns, 11 + 10 + 5);
  EXPECT_EQ(sum(rank), 50);
}

TEST(InputMetrics, TheSteadyIterationIsOfTheMiddleHalf) {
  const auto steady = [](const std::vector<std::int64_t>& ends, int accumulate = 1) {
    Timeline timeline;
    std::int64_t before = 0;
    std::int32_t batch = 0;
    for (const std::int64_t end : ends) {
      timeline.call(InputStream::compute, TOP, batch++, {0, 0, before, before, end});
      before = end;
    }
    InputRun run;
    run.program.batches = batch;
    run.program.accumulate = accumulate;
    run.batch_size = 10;
    timeline.add_to(run);
    const InputMetrics metrics = measure(run);
    EXPECT_DOUBLE_EQ(metrics.samples_per_second,
                     10 * 1e9 / static_cast<double>(metrics.steady_iteration_ns));
    return metrics.steady_iteration_ns;
  };
  EXPECT_EQ(steady({70}), 70);
  EXPECT_EQ(steady({70, 110}), 40);
  EXPECT_EQ(steady({70, 110, 120}), 25);
  EXPECT_EQ(steady({70, 110, 120, 500}), 10);
  EXPECT_EQ(steady({50, 90, 100, 110, 121, 130, 190, 300}), 10);
  // Two batches to a step, which takes long: whole steps, 110 to 134.
  EXPECT_EQ(steady({50, 90, 110, 112, 134, 136, 190, 300}, 2), 12);
}

TEST(InputMetrics, BatchesInFlightAreCounted) {
  const auto both = [](std::int64_t second) {
    return measured(Timeline()
                        .call(InputStream::memcpy, COPY, 0, {0, 0, 0, 0, 10})
                        .call(InputStream::compute, UPDATE, 0, {0, 0, 10, 10, 20})
                        .call(InputStream::compute, BOTTOM_BACKWARD, 0, {0, 0, 20, 20, 30})
                        .call(InputStream::memcpy, COPY, 1, {0, 0, second, second, 40})
                        .call(InputStream::compute, UPDATE, 1, {0, 0, 40, 40, 50}),
                    2)
        .ranks[0]
        .batches_in_flight;
  };
  EXPECT_EQ(both(29), 2);
  EXPECT_EQ(both(30), 1);
}

// What a rank does at one instant, asked of each instant anew, down from the compute stream.
class Instants {
 public:
  Instants(const InputCalls& calls, const std::vector<InputSpan>& spans)
      : calls_(calls), spans_(spans) {}

  // "busy BOTTOM", "COPY", "skew", "host", "drain".
  std::string at(std::int64_t time) const {
    for (std::size_t place = 0; place < calls_.size(); ++place) {
      if (calls_[place].stream != InputStream::compute || spans_[place].end_ns <= time) continue;
      const std::string kind(kind_name(calls_[place].action.kind));
      if (time < spans_[place].start_ns) return waits_for(place, time);
      return is_meeting(calls_[place].action.kind) ? kind : "busy " + kind;
    }
    return "drain";
  }

 private:
  // `place` has not begun at that time.
  std::string waits_for(std::size_t place, std::int64_t time) const {
    const InputSpan& span = spans_[place];
    if (time >= span.ready_ns) return "skew";
    const bool on_host = calls_[place].stream == InputStream::host;
    // The latest that it waited for; of several the one called last.
    std::size_t last = calls_.size();
    for (std::size_t other = 0; other < place; ++other) {
      const bool is_awaited =
          (!on_host && calls_[other].stream == calls_[place].stream) ||
          std::ranges::count(calls_[place].after, static_cast<std::uint32_t>(other)) > 0;
      if (is_awaited && spans_[other].end_ns == span.ready_ns) last = other;
    }
    if (last < calls_.size()) return runs_or_waits(last, time);
    // The host: in the middle of calling something, or of something of its own.
    for (std::size_t other = place + 1; other-- > 0;) {
      if (other < place && calls_[other].stream == InputStream::host) {
        return runs_or_waits(other, time);
      }
      if (time >= spans_[other].called_ns) return "host";
    }
    return "host";
  }
  std::string runs_or_waits(std::size_t place, std::int64_t time) const {
    if (time < spans_[place].start_ns) return waits_for(place, time);
    return std::string(kind_name(calls_[place].action.kind));
  }

  const InputCalls& calls_;
  const std::vector<InputSpan>& spans_;
};

TEST(InputMetrics, AgreeWithEachInstantByItself) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 40; ++round) {
    const int ranks = 1 + round % 3;
    const InputProgram program = testing::overlapping_program(ranks, 1 + round % 5, 1 + round % 2);
    const InputRun run = testing::random_run(program, random, 40);
    const InputMetrics metrics = measure(run);
    for (int r = 0; r < ranks; ++r) {
      const auto at = static_cast<std::size_t>(r);
      const InputMetrics::Rank& rank = metrics.ranks[at];
      std::map<std::string, std::int64_t> want, got;
      const Instants instants(program.calls[at], run.spans[at]);
      for (std::int64_t time = 0; time < metrics.makespan_ns; ++time) ++want[instants.at(time)];
      const auto tell = [&](const std::string& what, std::int64_t ns) {
        if (ns != 0) got[what] = ns;
      };
      for (const Kind kind : input_kinds) {
        tell("busy " + std::string(kind_name(kind)), of(rank.busy_by_kind, kind));
        tell(std::string(kind_name(kind)), of(rank.exposed, kind));
        EXPECT_GE(rank.hidden_ns(kind), 0);
      }
      tell("host", rank.host_ns);
      tell("skew", rank.skew_ns);
      tell("drain", rank.drain_ns);
      tell("other", rank.other_ns);
      ASSERT_EQ(got, want) << round << " rank " << r;
    }
  }
}

TEST(InputMetrics, PartsSumToTheMakespanWhateverTheTimes) {
  std::mt19937_64 random(6);
  const auto draw = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  for (int round = 0; round < 300; ++round) {
    InputRun run = testing::random_run(testing::overlapping_program(2, 4), random);
    for (auto& spans : run.spans) {
      for (InputSpan& span : spans) {  // as far off as a clock that nobody has set
        for (std::int64_t* time :
             {&span.called_ns, &span.issued_ns, &span.ready_ns, &span.start_ns, &span.end_ns}) {
          *time = std::max<std::int64_t>(*time + draw(600) - 300, 0);
        }
        span.end_ns = std::max(span.start_ns, span.end_ns);
      }
    }
    const InputMetrics metrics = measure(run);
    for (const InputMetrics::Rank& rank : metrics.ranks) {
      ASSERT_EQ(sum(rank), metrics.makespan_ns) << round;
      ASSERT_EQ(rank.busy_ns, sum(rank.busy_by_kind));
      for (const std::int64_t part :
           {rank.busy_ns, rank.host_ns, rank.skew_ns, rank.drain_ns, rank.other_ns}) {
        ASSERT_GE(part, 0);
      }
    }
  }
}

// The bubble of any run is what its compute stream is not busy, part by part.
TEST(InputBubbles, SumToTheIdleTime) {
  std::mt19937_64 random(35);
  for (int i = 0; i < 200; ++i) {
    const InputRun run = testing::random_run(testing::overlapping_program(2, 1 + i % 6), random);
    const InputMetrics parts = measure(run);
    const Metrics metrics = as_recorded(run, "run").metrics(0);
    EXPECT_EQ(metrics.makespan_ns, parts.makespan_ns);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const RankMetrics& own = metrics.ranks[rank];
      const InputMetrics::Rank& exposed = parts.ranks[rank];
      EXPECT_EQ(own.busy_ns + own.bubble.total_ns(), metrics.makespan_ns);
      for (const std::int64_t ns : own.bubble.by_kind()) EXPECT_GE(ns, 0);
      std::int64_t moved_ns = 0;
      for (const Kind kind : {Kind::COPY, Kind::PREFETCH, Kind::SPLITS, Kind::IDS, Kind::OUTPUT,
                              Kind::OUTPUT_BACKWARD, Kind::REDUCE_TOP, Kind::REDUCE_BOTTOM}) {
        moved_ns += exposed.exposed[static_cast<std::size_t>(kind)];
      }
      EXPECT_EQ(own.bubble.p2p_ns, moved_ns);
      EXPECT_LE(own.bubble.warmup_ns, own.first_start_ns);
      EXPECT_EQ(own.bubble.drain_ns, metrics.makespan_ns - own.last_end_ns);
    }
  }
}

}  // namespace
}  // namespace pipesim
