// What limits an iteration, against simulations without it.
#include "sim/advice/limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/random_schedule.h"

namespace pipesim {
namespace {

struct Asked {
  ScheduleChoice choice;
  Costs costs;
  Prediction prediction;
  std::vector<Limit> limits;

  std::int64_t gain_of(LimitKind kind) const {
    const auto found = std::ranges::find(limits, kind, &Limit::kind);
    return found == limits.end() ? 0 : found->gain_ns;
  }
};

Asked ask(const ScheduleRequest& request, const Costs& costs) {
  Asked asked;
  asked.choice.family = &family(request.name);
  asked.choice.shape = resolve_shape(*asked.choice.family, request);
  asked.choice.schedule = generate(request);
  asked.costs = costs;
  asked.prediction =
      predict(asked.choice.schedule, costs, asked.choice.family, asked.choice.shape, {});
  Trial trial;
  trial.costs = [&](const Schedule& schedule) {
    Costs own = costs;
    own.stages.resize(static_cast<std::size_t>(schedule.stages()), costs.stages.front());
    return own;
  };
  asked.limits = find_limits({asked.choice, costs, asked.prediction, request, trial, {}});
  return asked;
}

// Ranks are idle for (p - 1)(F + B) however many microbatches there are.
TEST(Limits, FillingIsTheClosedFormsBubble) {
  for (const char* name : {"gpipe", "1f1b", "eager-1f1b"}) {
    for (int ranks = 2; ranks <= 5; ++ranks) {
      const Asked asked = ask({.name = name, .ranks = ranks, .microbatches = 2 * ranks},
                              testing::costs_of(ranks, 1'000'000, 2'500'000, 0));
      EXPECT_EQ(asked.gain_of(LimitKind::filling), (ranks - 1) * 3'500'000) << name;
      EXPECT_EQ(asked.gain_of(LimitKind::transfers), 0);
      EXPECT_EQ(asked.gain_of(LimitKind::partition), 0);
    }
  }
}

TEST(Limits, EvenStagesTakeTheMean) {
  const ScheduleRequest request{.name = "1f1b", .ranks = 4, .microbatches = 8};
  Costs costs = testing::costs_of(4, 1'000'000, 2'000'000, 0);
  costs.stages[2].forward_ns = 2'000'000;
  costs.stages[2].backward_input_ns = costs.stages[2].backward_weight_ns = 2'000'000;
  const Asked asked = ask(request, costs);
  const auto found = std::ranges::find(asked.limits, LimitKind::partition, &Limit::kind);
  ASSERT_NE(found, asked.limits.end());
  const Limit& limit = *found;
  EXPECT_EQ(limit.stage, 2);
  EXPECT_EQ(limit.stage_ns, 6'000'000);
  EXPECT_EQ(limit.mean_ns, 3'750'000);
  // 11 times the mean of F and B.
  EXPECT_EQ(limit.gain_ns, asked.prediction.metrics.makespan_ns - 11 * 3'750'000);
}

TEST(Limits, AreWhatASimulationGainsAndLargestFirst) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 60; ++i) {
    const auto ranks = static_cast<int>(testing::pick(random, 2, 5));
    Costs costs = testing::costs_of(ranks, 1'000, 2'000, testing::pick(random, 0, 3'000));
    for (StageCosts& stage : costs.stages) stage.forward_ns += testing::pick(random, 0, 2'000);
    costs.compute_slowdown_ppm = 100'000 * testing::pick(random, 0, 1);
    const Asked asked = ask(
        {.name = i % 2 == 0 ? "1f1b" : "zb-h1", .ranks = ranks, .microbatches = ranks * 2}, costs);
    Costs free = costs;
    free.p2p = {};
    free.compute_slowdown_ppm = 0;
    EXPECT_EQ(
        asked.gain_of(LimitKind::transfers),
        asked.prediction.metrics.makespan_ns - simulate(asked.choice.schedule, free).makespan_ns);
    EXPECT_TRUE(std::ranges::is_sorted(asked.limits, std::greater(), &Limit::gain_ns));
    for (const Limit& limit : asked.limits) {
      EXPECT_GT(limit.gain_ns, 0);
      EXPECT_LT(limit.gain_ns, asked.prediction.metrics.makespan_ns);
      EXPECT_EQ(limit.candidate.has_value(),
                limit.kind == LimitKind::schedule || limit.kind == LimitKind::memory);
    }
  }
}

}  // namespace
}  // namespace pipesim
