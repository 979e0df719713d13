// What makespans vary by, against draws summed up by hand and brute force.
#include "sim/advice/spread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "sim/cost/costs.h"
#include "sim/engine/record_run.h"
#include "sim/flags/schedule_choice.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

Schedule chosen_schedule(const char* name, int ranks, int microbatches) {
  return choose_schedule({.name = name, .ranks = ranks, .microbatches = microbatches}).schedule;
}

TEST(Jitter, HasItsMeanAndDeviationAndDependsOnNothingElse) {
  const Variation variation{0.1};
  const Jitter jitter(variation, 7);
  const Jitter other(variation, 8);
  double sum = 0;
  double squares = 0;
  constexpr int draws = 20'000;
  int same = 0;
  for (int i = 0; i < draws; ++i) {
    const Action action = make_action(i % 8, i % 3 == 0 ? Kind::F : Kind::B, i / 8);
    const double factor = jitter.factor(action);
    sum += factor;
    squares += factor * factor;
    same += factor == other.factor(action) ? 1 : 0;
    EXPECT_EQ(factor, Jitter(variation, 7).factor(action));
  }
  const double mean = sum / draws;
  EXPECT_NEAR(mean, 1, 0.005);
  EXPECT_NEAR(std::sqrt(squares / draws - mean * mean), 0.1, 0.005);
  EXPECT_EQ(same, 0);
  EXPECT_EQ(Jitter(variation, 7, {false, true}).applied(make_action(0, Kind::F, 0), 0, 1000), 1000);
}

// Quantiles: within their bounds, a mean of 1, and as many draws in each part.
TEST(Jitter, FollowsMeasuredQuantiles) {
  const Variation variation{0, {900'000, 950'000, 1'000'000, 1'400'000}};
  const double mean = (925'000.0 + 975'000.0 + 1'200'000.0) / 3 / 1e6;
  const Jitter jitter(variation, 3);
  std::map<int, int> parts;
  double sum = 0;
  constexpr int draws = 30'000;
  for (int i = 0; i < draws; ++i) {
    const double factor = jitter.factor(make_action(i % 4, Kind::F, i / 4)) * mean;
    EXPECT_GE(factor, 0.9 - 1e-9);
    EXPECT_LE(factor, 1.4 + 1e-9);
    ++parts[factor < 0.95 ? 0 : factor < 1 ? 1 : 2];
    sum += factor / mean;
  }
  EXPECT_NEAR(sum / draws, 1, 0.005);
  for (const auto& [part, count] : parts) EXPECT_NEAR(count, draws / 3, draws / 50);
}

// One rank does one after the other: its makespans are sums of draws.
TEST(Spread, OfOneRankIsThatOfASum) {
  const Schedule schedule = chosen_schedule("1f1b", 1, 6);
  const Costs costs = testing::costs_of(1, 1'000'000, 2'000'000);
  const SpreadQuestion question{{0.05}, 40};
  std::vector<std::int64_t> sums;
  for (int seed = 1; seed <= 40; ++seed) {
    const Jitter jitter(question.variation, static_cast<std::uint64_t>(seed));
    std::int64_t sum = 0;
    for (int m = 0; m < 6; ++m) {
      sum += std::llround(1e6 * jitter.factor(make_action(0, Kind::F, m)));
      sum += std::llround(2e6 * jitter.factor(make_action(0, Kind::B, m)));
    }
    sums.push_back(sum);
  }
  std::ranges::sort(sums);
  const MakespanSpread spread = find_spread(schedule, costs, {}, question, true);
  EXPECT_EQ(spread.p50_ns, sums[19]);
  EXPECT_EQ(spread.p95_ns, sums[37]);
  ASSERT_EQ(spread.rank_shares.size(), 1U);
  EXPECT_NEAR(spread.rank_shares[0], 1, 1e-12);
}

// Whatever evaluates it, in every mode of transfer: the same draws, and shares that sum to all.
TEST(Spread, IsTheSameHoweverItIsEvaluated) {
  std::mt19937_64 random(5);
  int compared = 0;
  for (int i = 0; i < 60; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    const Costs costs = testing::random_costs(random, schedule);
    const SpreadQuestion question{{0.2}, 12};
    SimulationOptions events;
    events.always_by_events = true;
    const MakespanSpread direct = find_spread(schedule, costs, {}, question, true);
    const MakespanSpread queued = find_spread(schedule, costs, events, question, true);
    EXPECT_EQ(direct.p50_ns, queued.p50_ns);
    EXPECT_EQ(direct.p95_ns, queued.p95_ns);
    EXPECT_EQ(direct.rank_shares, queued.rank_shares);
    EXPECT_LE(direct.p50_ns, direct.p95_ns);
    if (direct.rank_shares.empty()) continue;
    ++compared;
    EXPECT_NEAR(std::accumulate(direct.rank_shares.begin(), direct.rank_shares.end(), 0.0), 1,
                1e-9);
  }
  EXPECT_GT(compared, 20);
}

// A rank whose actions take no time varies nothing: another one has all of it.
TEST(Spread, IsOfTheRankThatVaries) {
  const Schedule schedule = chosen_schedule("gpipe", 3, 4);
  Costs costs = testing::costs_of(3, 1'000'000, 2'000'000);
  for (const std::size_t stage : {0U, 2U}) {
    costs.stages[stage].forward_ns = 0;
    costs.stages[stage].split_backward(0);
  }
  const MakespanSpread spread = find_spread(schedule, costs, {}, {{0.1}, 30}, true);
  ASSERT_EQ(spread.rank_shares.size(), 3U);
  EXPECT_EQ(spread.rank_shares[0], 0);
  EXPECT_EQ(spread.rank_shares[2], 0);
  EXPECT_NEAR(spread.rank_shares[1], 1, 1e-12);
  EXPECT_TRUE(find_spread(schedule, costs, {}, {{0}, 30}, true).rank_shares.empty());
}

}  // namespace
}  // namespace pipesim
