// Candidates, the time-memory front, what each loses by.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sim/advice/candidates.h"
#include "sim/advice/ranking.h"
#include "sim/cost/recut.h"
#include "tests/random_schedule.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

using testing::pick;

Candidate point(int microbatches, std::int64_t time, double memory, std::string left_out = {}) {
  Candidate c;
  c.microbatches = microbatches;
  c.time_ns = time;
  c.memory = memory;
  c.left_out = std::move(left_out);
  return c;
}

TEST(Front, HoldsWhatNothingBeats) {
  std::vector<Candidate> all{
      point(8, 10, 4),           // fast
      point(8, 12, 2),           // small
      point(8, 12, 3),           // as slow as the last, larger
      point(8, 11, 5),           // slower and larger than the first
      point(8, 10, 4),           // a tie with the first
      point(8, 1, 1, "broken"),  // not simulated: beats nobody
      point(16, 20, 9),          // alone with its number of microbatches
  };
  mark_front(all);
  std::vector<bool> got;
  for (const Candidate& c : all) got.push_back(c.on_front);
  EXPECT_EQ(got, (std::vector<bool>{true, true, false, false, true, false, true}));
}

// By bounds instead of pairs: none as small is faster, and none as fast is smaller.
TEST(Front, IsWhatIsBestUnderSomeBounds) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<Candidate> all;
    for (int n = 0; n < 8; ++n) {
      all.push_back(point(1, pick(random, 1, 6), static_cast<double>(pick(random, 1, 6))));
    }
    mark_front(all);
    for (const Candidate& one : all) {
      // The fastest of those as small, and the smallest of those as fast.
      std::int64_t fastest = one.time_ns;
      double smallest = one.memory;
      for (const Candidate& other : all) {
        if (other.memory <= one.memory) fastest = std::min(fastest, other.time_ns);
        if (other.time_ns <= one.time_ns) smallest = std::min(smallest, other.memory);
      }
      EXPECT_EQ(one.on_front, fastest == one.time_ns && smallest == one.memory);
    }
  }
}

TEST(Ranking, IsByTimeWithinANumberOfMicrobatches) {
  std::vector<Candidate> all{point(16, 5, 1), point(8, 3, 2), point(8, 1, 1, "broken"),
                             point(16, 4, 1), point(8, 3, 1), point(16, 1, 1, "broken"),
                             point(8, 2, 9)};
  sort_by_time(all);
  std::vector<std::pair<int, std::int64_t>> got;
  for (const Candidate& c : all) got.emplace_back(c.microbatches, c.time_ns);
  EXPECT_EQ(got, (std::vector<std::pair<int, std::int64_t>>{
                     {16, 4}, {16, 5}, {16, 1}, {8, 2}, {8, 3}, {8, 3}, {8, 1}}));
  EXPECT_EQ(all[4].memory, 1);
  EXPECT_EQ(fastest_of(all, 8, {})->time_ns, 2);
  EXPECT_EQ(fastest_of(all, 32, {}), nullptr);
}

// The model that the costs of 4 ranks are of.
Trial trial_of(const StageCosts& stage, int ranks = 4) {
  Trial trial;
  CostsFile file;
  file.name = "costs";
  file.costs.stages.assign(static_cast<std::size_t>(ranks), stage);
  trial.costs = [file, ranks](const Schedule& schedule) {
    return recut(file, Placement::loop(ranks, 1), schedule.placement)
        .resolve(schedule.placement, {});
  };
  return trial;
}

StageCosts small_stage() {
  StageCosts stage;
  stage.forward_ns = 10;
  stage.split_backward(20);
  stage.activation_bytes = 100;
  stage.output_bytes = 7;
  return stage;
}

TEST(Candidates, AreTheSameModel) {
  Trial trial = trial_of(small_stage());
  int tried = 0;
  trial.progress = [&](const std::string&) { ++tried; };
  const Sweep sweep{{.name = "", .ranks = 4, .microbatches = 1}, {8, 9}, {}};
  const auto all = try_all(proposals(sweep), trial);
  EXPECT_EQ(tried, static_cast<int>(all.size()));
  EXPECT_EQ(all.size(), 2 * all_families().size());
  for (const Candidate& c : all) {
    if (c.schedule == "interleaved" && c.microbatches == 8) {
      EXPECT_EQ(c.time_ns, 285);
      EXPECT_EQ(c.in_flight, 5.5);
      EXPECT_EQ(c.prediction.metrics.peak_activation_bytes(), 550);
      // 7 cuts between ranks, both ways.
      EXPECT_EQ(c.sent_bytes, 2 * 7 * 7 * 8);
    }
    if (c.schedule == "1f1b" && c.microbatches == 8) {
      EXPECT_EQ(c.time_ns, 330);
      EXPECT_EQ(c.in_flight, 4);
      EXPECT_EQ(c.sent_bytes, 2 * 3 * 7 * 8);
      EXPECT_EQ(c.sent_bytes_of_rank, 2 * 7 * 8);
    }
    if (c.left_out.empty()) {
      // The same work, whatever its cuts.
      EXPECT_EQ(c.parts.of(TimePart::compute), 4 * 30 * c.microbatches) << c.schedule;
    }
    const bool uneven = c.schedule == "interleaved-pytorch" || c.schedule == "interleaved-zb";
    if (uneven) {
      EXPECT_EQ(c.left_out.empty(), c.microbatches == 8) << c.schedule;
    }
  }
}

TEST(Candidates, AreTriedWithEachNumberOfEach) {
  const Sweep sweep{{.name = "", .ranks = 2, .microbatches = 1}, {4, 8}, {1, 2, 4}};
  int looped = 0;
  int plain = 0;
  for (const Proposal& one : proposals(sweep)) {
    if (one.name() == "bfs") ++looped;
    if (one.name() == "1f1b") ++plain;
  }
  EXPECT_EQ(looped, 6);
  EXPECT_EQ(plain, 2);
}

TEST(Candidates, SayWhichShapeNearbyWorks) {
  const Trial trial = trial_of(small_stage(), 8);
  const auto nearest = [&](ScheduleRequest request) {
    return nearest_that_works({&family(request.name), request}, trial);
  };
  // 12 microbatches in groups of 8 deadlock; in one group, or 16 of them, they do not.
  ScheduleRequest ragged{.name = "interleaved", .ranks = 8, .microbatches = 12, .chunks = 2};
  const auto found = nearest(ragged);
  ASSERT_TRUE(found.has_value());
  EXPECT_NO_THROW({
    const Schedule schedule = generate(*found);
    simulate(schedule, trial.costs(schedule));
  });
  // Nothing nearer does.
  const int distance = std::abs(found->microbatches - 12);
  for (int m = 12 - distance + 1; m < 12 + distance; ++m) {
    ragged.microbatches = m;
    const Schedule schedule = generate(ragged);
    EXPECT_THROW(simulate(schedule, trial.costs(schedule)), Error) << m;
  }
  const auto even =
      nearest({.name = "interleaved-pytorch", .ranks = 8, .microbatches = 17, .chunks = 2});
  ASSERT_TRUE(even.has_value());
  EXPECT_EQ(even->microbatches, 18);
  EXPECT_FALSE(nearest({.name = "1f1b", .ranks = 8, .microbatches = 8, .placement = "1,0"}));
}

TEST(TimeParts, SumToAllTimeOfAllRanks) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    Costs costs = testing::random_costs(random, schedule);
    testing::add_messages(costs, random);
    if (pick(random, 0, 1) == 1) costs.stages.front().overlap_ns = pick(random, 0, 100);
    const Metrics metrics = simulate(schedule, costs);
    const TimeParts parts = time_parts(schedule, costs, metrics);
    std::int64_t sum = 0;
    for (const std::int64_t ns : parts.ns) sum += ns;
    EXPECT_EQ(sum, metrics.makespan_ns * schedule.ranks());
    if (costs.compute_slowdown_ppm == 0) {
      EXPECT_EQ(parts.of(TimePart::slowdown), 0);
    }
  }
}

// ---- What is said of those that lose

struct Made {
  Candidate one, fastest;

  std::string why(std::optional<std::int64_t> cap = {}) const { return why_not(one, fastest, cap); }
};

// Two of 2 ranks that take 100 ms, and as much more as the parts say, of both together.
Made made(const std::vector<std::pair<TimePart, std::int64_t>>& more_ms) {
  Made made;
  for (Candidate* one : {&made.one, &made.fastest}) {
    one->prediction.metrics.ranks.resize(2);
    one->parts.of(TimePart::compute) = 100'000'000;
    one->parts.of(TimePart::drain) = 50'000'000;
    one->parts.of(TimePart::warmup) = 50'000'000;
    one->memory = one->in_flight = 4;
  }
  for (const auto& [part, ms] : more_ms) made.one.parts.of(part) += ms * 1'000'000;
  for (Candidate* one : {&made.one, &made.fastest}) {
    std::int64_t sum = 0;
    for (const std::int64_t ns : one->parts.ns) sum += ns;
    one->time_ns = sum / 2;
  }
  return made;
}

TEST(WhyNot, NamesWhatTakesLonger) {
  EXPECT_EQ(made({{TimePart::drain, 12}, {TimePart::warmup, -3}}).why(),
            "+4.50 ms: drain 6.00 ms longer, warm-up 1.50 ms shorter");
  EXPECT_EQ(made({{TimePart::p2p, 8}, {TimePart::drain, 2}, {TimePart::steady, 4}}).why(),
            "+7.00 ms: waits for transfers 4.00 ms longer, steady-state idle time 2.00 ms longer, "
            "drain 1.00 ms longer");
  // What hardly counts is left out.
  EXPECT_EQ(made({{TimePart::messages, 20}, {TimePart::drain, 1}}).why(),
            "+10.50 ms: compute for messages 10.00 ms longer");
  // What is shorter stands last.
  EXPECT_EQ(made({{TimePart::steady, -60}, {TimePart::drain, 40}, {TimePart::warmup, 30}}).why(),
            "+5.00 ms: drain 20.00 ms longer, warm-up 15.00 ms longer, steady-state idle time "
            "30.00 ms shorter");
  EXPECT_EQ(made({}).why(), "as fast");
}

TEST(WhyNot, SaysWhereASmallerBubbleDoesNotHelp) {
  Made split = made({{TimePart::compute, 10}, {TimePart::drain, -4}});
  split.one.splits_backward = true;
  EXPECT_EQ(split.why(),
            "+3.00 ms: bubble 2.00 ms smaller, but separate I and W hide no tensor-parallel "
            "communication: compute 5.00 ms longer");
  split.fastest.splits_backward = true;
  EXPECT_EQ(split.why(), "+3.00 ms: bubble 2.00 ms smaller, but compute 5.00 ms longer");
  EXPECT_EQ(made({{TimePart::closing, -4}, {TimePart::drain, 10}}).why(),
            "+3.00 ms: 2.00 ms less work, but drain 5.00 ms longer");
}

TEST(WhyNot, SaysWhereParametersAreThereTwice) {
  Made twice = made({{TimePart::drain, 2}});
  twice.one.asked = {&family("dualpipe"), {"dualpipe", 2, 4}};
  EXPECT_EQ(twice.why(), "+1.00 ms: drain 1.00 ms longer; holds the parameters twice");
}

TEST(WhyNot, SaysWhatIsSavedAndWhatDoesNotFit) {
  Made slower = made({{TimePart::drain, 2}});
  slower.one.memory = slower.one.in_flight = 2.5;
  EXPECT_EQ(slower.why(), "+1.00 ms: drain 1.00 ms longer");
  slower.one.on_front = true;
  EXPECT_EQ(slower.why(), "+1.00 ms: drain 1.00 ms longer; has 1.5 less in flight");
  Made larger = made({});
  larger.one.memory = larger.one.in_flight = 5;
  EXPECT_EQ(larger.why(), "as fast, but has 1 more in flight");

  Made faster = made({{TimePart::drain, -2}});
  for (Candidate* one : {&faster.one, &faster.fastest}) one->prediction.memory.resize(2);
  faster.one.prediction.memory[1].states.weights = 3 << 20;
  faster.one.memory = 3 << 20;
  faster.fastest.prediction.memory[1].states.weights = 1 << 20;
  faster.fastest.memory = 1 << 20;
  EXPECT_EQ(faster.why(2 << 20), "1.00 ms faster, but 1.0 MiB too much");
  std::swap(faster.one, faster.fastest);
  faster.one.on_front = true;
  EXPECT_EQ(faster.why(8 << 20), "+1.00 ms: drain 1.00 ms longer; needs 2.0 MiB less");
}

}  // namespace
}  // namespace pipesim
