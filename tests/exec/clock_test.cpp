// Clocks of several hosts: injected ones, which all derive from one, so that
// what relates them can be checked exactly.
#include "exec/run/clock.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "exec/cli/report.h"
#include "exec/run/clock_sync.h"
#include "exec/run/ranks.h"
#include "exec/transport/collectives.h"
#include "sim/schedule/family.h"
#include "tests/delayed_transport.h"
#include "tests/files.h"
#include "tests/local_run.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using exec::Clock;
using exec::ClockReading;
using exec::ClockRelation;
using exec::SharedClocks;

constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t ppm = 1000;  // in ppb

TEST(Clock, ShowsWhatAnotherHostsWould) {
  const Clock clock(10 * ms, 50 * ppm, 1'000'000'000);
  EXPECT_EQ(clock.shown_at(1'000'000'000), 1'000'000'000 + 10 * ms);
  EXPECT_EQ(clock.shown_at(3'000'000'000), 3'000'000'000 + 10 * ms + 100'000);
  EXPECT_FALSE(clock.is_own());
  EXPECT_TRUE(Clock().is_own());
  EXPECT_EQ(Clock().shown_at(77), 77);
}

TEST(ClockRelation, IsTheLineThroughBothReadings) {
  const ClockRelation own;
  EXPECT_EQ(own.to_first(123), 123);
  EXPECT_EQ(own.offset_ns(), 0);
  EXPECT_EQ(own.drift_ppb(), 0);
  EXPECT_EQ(own.uncertainty_ns(), 0);

  ClockRelation relation({1000, 5000, 7}, {3000, 7200, 4});
  EXPECT_EQ(relation.offset_ns(), 4000);
  EXPECT_EQ(relation.drift_ppb(), 100'000'000);
  EXPECT_EQ(relation.uncertainty_ns(), 7 + 2);
  EXPECT_EQ(relation.to_first(1000), 5000);
  EXPECT_EQ(relation.to_first(2000), 6100);
  EXPECT_EQ(relation.to_first(3000), 7200);
  EXPECT_EQ(relation.to_first(4000), 8300);
  EXPECT_EQ(relation.to_first(0), 3900);
  EXPECT_EQ(relation.to_first(999), 4998) << "rounded down";
  relation.set_shift(50);
  EXPECT_EQ(relation.to_first(2000), 6150);
  EXPECT_EQ(relation.offset_ns(), 4000);

  const ClockRelation once({1000, 400, 7}, {1000, 400, 7});
  EXPECT_EQ(once.to_first(5000), 4400);
}

// Readings that are wrong by as much as they say, a day apart, of clocks that
// have been running for years: within the uncertainty at all times in between.
TEST(ClockRelation, HoldsBetweenAnyReadings) {
  std::mt19937_64 random(5);
  const std::int64_t year = 31'536'000'000'000'000;
  const std::int64_t day = 86'400'000'000'000;
  for (int i = 0; i < 300; ++i) {
    const std::int64_t start = testing::pick(random, year, 10 * year);
    const std::int64_t end = start + testing::pick(random, 1'000, day);
    const auto any_clock = [&] {
      return Clock(testing::pick(random, -year, year), testing::pick(random, -500, 500) * ppm,
                   start - testing::pick(random, 0, day));
    };
    const Clock first = any_clock();
    const Clock own = any_clock();
    const auto read = [&](std::int64_t at) {
      const std::int64_t error = testing::pick(random, 0, 400);
      const std::int64_t sign = testing::pick(random, 0, 1) * 2 - 1;
      return ClockReading{own.shown_at(at) + sign * error, first.shown_at(at),
                          error + error / 1000 + 1};
    };
    const ClockRelation relation(read(start), read(end));
    std::int64_t before = 0;
    for (int k = 0; k <= 50; ++k) {
      const std::int64_t at = start + (end - start) / 50 * k;
      const std::int64_t mapped = relation.to_first(own.shown_at(at));
      EXPECT_LE(std::abs(mapped - first.shown_at(at)), relation.uncertainty_ns()) << i;
      EXPECT_GE(mapped, before);
      before = mapped;
    }
  }
}

// Offsets of +-10 ms and drifts of +-50 ppm; rank 0 has neither.
std::vector<Clock> other_clocks() {
  const std::int64_t now = Clock::monotonic_ns();
  return {Clock(), Clock(10 * ms, 50 * ppm, now), Clock(-10 * ms, -50 * ppm, now),
          Clock(-10 * ms, 50 * ppm, now)};
}

struct MeasuredClocks {
  std::vector<ClockRelation> relations;
  SharedClocks clocks;
  std::int64_t start = 0;  // after the first reading
  std::int64_t end = 0;    // before the second
};

MeasuredClocks measure(const std::vector<Clock>& clocks, const testing::Wrap& wrap = {}) {
  MeasuredClocks measured;
  exec::run_as_threads(static_cast<int>(clocks.size()), {}, [&](exec::Transport& own) {
    const auto wrapped = wrap ? wrap(own) : nullptr;
    exec::Transport& transport = wrapped ? *wrapped : own;
    const Clock& clock = clocks[static_cast<std::size_t>(own.rank())];
    const SharedClocks shared = find_shared_clocks(transport, clock);
    const auto at_start = read_clocks(transport, clock, shared);
    exec::barrier(transport);
    const std::int64_t start = Clock::monotonic_ns();
    for (int i = 0; i < 200; ++i) exec::barrier(transport);
    const std::int64_t end = Clock::monotonic_ns();
    const auto relations = relate_clocks(at_start, read_clocks(transport, clock, shared), shared);
    EXPECT_EQ(relations.size(), clocks.size());
    if (own.rank() == 0) measured = {relations, shared, start, end};
  });
  return measured;
}

void expect_related(const std::vector<Clock>& clocks, const MeasuredClocks& measured) {
  for (std::size_t rank = 0; rank < clocks.size(); ++rank) {
    const ClockRelation& relation = measured.relations[rank];
    SCOPED_TRACE(::testing::Message()
                 << "rank " << rank << ", uncertain by " << relation.uncertainty_ns()
                 << " ns, drift " << relation.drift_ppb() << " ppb");
    for (int k = 0; k <= 500; ++k) {
      const std::int64_t at = measured.start + (measured.end - measured.start) / 500 * k;
      const std::int64_t error =
          relation.to_first(clocks[rank].shown_at(at)) - clocks[0].shown_at(at);
      EXPECT_LE(std::abs(error), relation.uncertainty_ns());
    }
    const std::int64_t offset =
        clocks[0].shown_at(measured.start) - clocks[rank].shown_at(measured.start);
    EXPECT_NEAR(static_cast<double>(relation.offset_ns()), static_cast<double>(offset),
                static_cast<double>(relation.uncertainty_ns() + ms));
  }
}

TEST(ClockSync, RelatesInjectedClocks) {
  for (std::size_t ranks = 2; ranks <= 4; ++ranks) {
    std::vector<Clock> clocks = other_clocks();
    clocks.resize(ranks);
    const MeasuredClocks measured = measure(clocks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(measured.clocks[rank], static_cast<int>(rank));
    }
    expect_related(clocks, measured);
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      EXPECT_GT(measured.relations[rank].uncertainty_ns(), 0);
    }
  }
}

// However unlike the ways there and back are.
TEST(ClockSync, RelatesThemOverASlowTransport) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Clock> clocks = other_clocks();
    const testing::Wrap wrap = [&](exec::Transport& own) {
      const auto drawn = 10 * seed + static_cast<unsigned>(own.rank());
      return std::make_unique<testing::DelayedTransport>(own, drawn, seed % 2 == 0 ? 20 : 200);
    };
    expect_related(clocks, measure(clocks, wrap));
  }
}

// Rank 0's may be the odd one: then the others share a clock, and one relation.
TEST(ClockSync, ThoseWhoShareAClockShareItsRelation) {
  const Clock odd(10 * ms, -50 * ppm, Clock::monotonic_ns());
  const std::vector<Clock> clocks{odd, Clock(), odd, Clock()};
  const MeasuredClocks measured = measure(clocks);
  EXPECT_EQ(measured.clocks, (SharedClocks{0, 1, 2, 1}));
  expect_related(clocks, measured);
  const ClockRelation& one = measured.relations[1];
  const ClockRelation& three = measured.relations[3];
  for (const std::int64_t at : {measured.start, measured.end}) {
    EXPECT_EQ(one.to_first(at), three.to_first(at));
  }
  EXPECT_EQ(one.uncertainty_ns(), three.uncertainty_ns());
}

TEST(ClockSync, RanksOfAHostShareItsClock) {
  const MeasuredClocks measured = measure({Clock(), Clock(), Clock()});
  EXPECT_EQ(measured.clocks, (SharedClocks{0, 0, 0}));
  EXPECT_TRUE(exec::all_share_one(measured.clocks));
  for (const ClockRelation& relation : measured.relations) {
    EXPECT_EQ(relation.offset_ns(), 0);
    EXPECT_EQ(relation.uncertainty_ns(), 0);
    EXPECT_EQ(relation.to_first(measured.start), measured.start);
  }
}

// That nothing arrives before it was sent; nor, where clocks allow that, starts
// before its input arrives.
void expect_causal(std::span<const Span> spans, bool adjusted) {
  std::map<std::string, Span> by_name;
  for (const Span& span : spans) by_name[to_text(span.action)] = span;
  for (const Span& span : spans) {
    SCOPED_TRACE(to_text(span.action));
    EXPECT_LE(span.start_ns, span.end_ns);
    EXPECT_LE(span.input_sent_ns, span.input_arrival_ns);
    EXPECT_TRUE(adjusted || span.input_arrival_ns <= span.start_ns);
    if (!is_receive(span.action.kind)) continue;
    const Span& send = by_name.at(to_text(peer_of(span.action)));
    EXPECT_LT(send.start_ns, span.end_ns);
    EXPECT_LE(send.start_ns, span.start_ns);
  }
}

// A run with such clocks is the run without: but for its times, which are
// causal, as all is in truth.
TEST(ClockSync, ARunIsTheSameByOtherClocks) {
  const Schedule schedule = generate({.name = "1f1b", .ranks = 4, .microbatches = 6});
  exec::TrainingJob training = testing::tiny_training(schedule, testing::tiny_model(8));
  training.iterations = 3;
  training.record_details = true;
  const exec::RunResult plain = testing::run_locally(training);
  for (unsigned seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    testing::Wrap wrap;
    if (seed % 2 == 1) {
      wrap = [&](exec::Transport& own) {
        return std::make_unique<testing::DelayedTransport>(
            own, 10 * seed + static_cast<unsigned>(own.rank()));
      };
    }
    const testing::TemporaryFolder folder;
    OutputFile file(folder / "trace.json", false);
    const std::vector<Clock> clocks = other_clocks();
    const exec::RunResult result = testing::run_locally(training, {}, wrap, &file, clocks);
    file.commit();
    EXPECT_TRUE(result.verification->bitwise);
    EXPECT_EQ(result.losses, plain.losses);
    ASSERT_EQ(result.run.spans.size(), plain.run.spans.size());
    // Over so short a run drifts are hardly known, and clocks may contradict
    // each other by what the readings are wrong.
    expect_causal(result.run.spans_of(result.median()),
                  result.run.about.measured.adjusted_transfers > 0);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const RankMetrics& own = result.metrics.ranks[rank];
      EXPECT_EQ(own.peak_activation_chunks, plain.metrics.ranks[rank].peak_activation_chunks);
      EXPECT_LE(own.busy_ns, result.median_ns());
    }
    const nlohmann::json trace = nlohmann::json::parse(read_file(folder / "trace.json"));
    const nlohmann::json& metadata = trace["metadata"]["pipesim"];
    EXPECT_EQ(metadata["adjusted_transfers"], result.run.about.measured.adjusted_transfers);
    ASSERT_EQ(metadata["clocks"].size(), 4);
    EXPECT_EQ(metadata["clocks"][0]["offset_ns"], 0);
    EXPECT_EQ(metadata["clocks"][0]["uncertainty_ns"], 0);
    const nlohmann::json json =
        nlohmann::json::parse(exec::result_json({training, "1F1B"}, result));
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const nlohmann::json& clock = metadata["clocks"][rank];
      EXPECT_EQ(clock["offset_ns"], result.clocks[rank].offset_ns());
      EXPECT_EQ(clock["drift_ppb"], result.clocks[rank].drift_ppb());
      EXPECT_EQ(clock["shift_ns"], result.clocks[rank].shift_ns());
      EXPECT_EQ(json["ranks"][rank]["clock_offset_ns"], clock["offset_ns"]);
      EXPECT_EQ(json["ranks"][rank]["clock_uncertainty_ns"], clock["uncertainty_ns"]);
      // As right as it says; what the clocks drift until they are first read is no millisecond.
      const std::int64_t told = std::abs(result.clocks[rank].offset_ns());
      EXPECT_LE(std::abs(told - (rank > 0 ? 10 * ms : 0)),
                result.clocks[rank].uncertainty_ns() + ms);
    }
    std::map<std::int64_t, int> arrows;
    for (const nlohmann::json& event : trace["traceEvents"]) {
      if (event["ph"] == "s" || event["ph"] == "f") ++arrows[event["id"].get<std::int64_t>()];
    }
    EXPECT_EQ(arrows.size(), 3 * 6 * 6) << "no arrow is left out";
  }
}

TEST(ClockSync, NothingIsSaidOfOneClock) {
  const Schedule schedule = generate({.name = "gpipe", .ranks = 2, .microbatches = 2});
  const exec::TrainingJob training = testing::tiny_training(schedule, testing::tiny_model(4));
  const testing::TemporaryFolder folder;
  OutputFile file(folder / "trace.json", false);
  const exec::RunResult result = testing::run_locally(training, {}, {}, &file);
  file.commit();
  EXPECT_TRUE(result.run.about.clocks.empty());
  const nlohmann::json trace = nlohmann::json::parse(read_file(folder / "trace.json"));
  EXPECT_FALSE(trace["metadata"]["pipesim"].contains("clocks"));
  EXPECT_FALSE(trace["metadata"]["pipesim"].contains("adjusted_transfers"));
}

}  // namespace
}  // namespace pipesim
