// Stages of a model dealt out to other virtual stages.
#include "sim/cost/recut.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using testing::pick;

// All amounts that are divided, by what they are.
std::vector<std::int64_t> totals(const std::vector<StageCosts>& stages) {
  std::vector<std::int64_t> sums(15);
  for (const StageCosts& s : stages) {
    const std::int64_t parameters =
        std::accumulate(s.parameters.begin(), s.parameters.end(), std::int64_t{0});
    const std::int64_t own[] = {s.forward_ns,
                                s.backward_input_ns,
                                s.backward_weight_ns,
                                s.overlap_ns.value_or(0),
                                s.optimizer_ns,
                                s.reduce_gradients_ns,
                                s.activation_bytes,
                                s.weight_residue_bytes,
                                s.weight_bytes,
                                s.gradient_bytes,
                                s.optimizer_bytes,
                                s.unsharded_bytes,
                                s.unshard.bytes,
                                s.reduce.bytes,
                                parameters};
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  }
  return sums;
}

std::vector<StageCosts> random_stages(std::mt19937_64& random, int count) {
  std::vector<StageCosts> stages;
  for (int i = 0; i < count; ++i) {
    StageCosts& stage = stages.emplace_back();
    for (const auto field :
         {&StageCosts::forward_ns, &StageCosts::backward_input_ns, &StageCosts::backward_weight_ns,
          &StageCosts::optimizer_ns, &StageCosts::reduce_gradients_ns,
          &StageCosts::activation_bytes, &StageCosts::weight_residue_bytes,
          &StageCosts::weight_bytes, &StageCosts::gradient_bytes, &StageCosts::optimizer_bytes,
          &StageCosts::unsharded_bytes, &StageCosts::output_bytes}) {
      stage.*field = pick(random, 0, 40);
    }
    stage.overlap_ns = pick(random, 0, 40);
    stage.unshard = {pick(random, 0, 9), pick(random, 0, 40), pick(random, 1, 5)};
    stage.reduce = {pick(random, 0, 9), pick(random, 0, 40), pick(random, 1, 5)};
    for (std::int64_t layers = pick(random, 1, 4); layers > 0; --layers) {
      stage.parameters.push_back(pick(random, 0, 20));
    }
  }
  return stages;
}

TEST(Recut, KeepsTotals) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    const auto stages = random_stages(random, static_cast<int>(pick(random, 1, 6)));
    const auto count = static_cast<int>(pick(random, 1, 12));
    const auto cuts = recut(stages, count, "costs");
    ASSERT_EQ(cuts.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(totals(cuts), totals(stages)) << stages.size() << " stages as " << count;
  }
}

// Part i of n of T is floor((i+1)T/n) - floor(iT/n), in the order of the model; a message is as
// large wherever it is sent.
TEST(Recut, DealsStagesOutInTheirOrder) {
  StageCosts first;
  first.forward_ns = 7;
  first.output_bytes = 5;
  first.workspace_bytes = 11;
  StageCosts second;
  second.forward_ns = 2;
  second.output_bytes = 9;
  const auto cuts = recut({first, second}, 6, "costs");
  std::vector<std::int64_t> times, outputs;
  for (const StageCosts& cut : cuts) {
    times.push_back(cut.forward_ns);
    outputs.push_back(cut.output_bytes);
  }
  EXPECT_EQ(times, (std::vector<std::int64_t>{2, 2, 3, 0, 1, 1}));
  EXPECT_EQ(outputs, (std::vector<std::int64_t>{5, 5, 5, 9, 9, 9}));
  EXPECT_EQ(cuts[1].workspace_bytes, 11);
  // Of two stages as three, the second has a half of each.
  std::vector<std::int64_t> thirds;
  for (const StageCosts& cut : recut({first, second}, 3, "costs")) thirds.push_back(cut.forward_ns);
  EXPECT_EQ(thirds, (std::vector<std::int64_t>{4, 3, 2}));
  EXPECT_EQ(recut({first, second}, 2, "costs"), (std::vector{first, second}));
  EXPECT_EQ(recut({first, second}, 1, "costs").front().forward_ns, 9);
  EXPECT_EQ(recut({first, second}, 1, "costs").front().output_bytes, 9);
}

TEST(Recut, LayersAreCutWhereStagesAre) {
  StageCosts stage;
  stage.parameters = {6, 1, 5};
  const auto halves = recut({stage}, 2, "costs");
  EXPECT_EQ(halves[0].parameters, (std::vector<std::int64_t>{6}));
  EXPECT_EQ(halves[1].parameters, (std::vector<std::int64_t>{1, 5}));
  const auto thirds = recut({stage}, 3, "costs");
  EXPECT_EQ(thirds[0].parameters, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(thirds[1].parameters, (std::vector<std::int64_t>{2, 1, 1}));
  EXPECT_EQ(thirds[2].parameters, (std::vector<std::int64_t>{4}));
}

// An exchange in parts takes its steps' time with it; one in a single part has them everywhere.
TEST(Recut, ExchangesKeepTheTimeOfTheirSteps) {
  StageCosts stage;
  stage.reduce = {12, 100, 4};
  stage.unshard = {12, 100, 1};
  for (const StageCosts& half : recut({stage}, 2, "costs")) {
    EXPECT_EQ(half.reduce, (CollectiveCosts{6, 50, 2}));
    EXPECT_EQ(half.unshard, (CollectiveCosts{12, 50, 1}));
  }
}

// What ranks do at an iteration's end goes with what they hold.
TEST(Recut, ClosingWorkFollowsTheStages) {
  CostsFile file;
  file.costs.stages.resize(2);
  file.costs.optimizer_ns = {10, 31};
  const Placement given = Placement::loop(2, 1);
  EXPECT_EQ(recut(file, given, given).costs.optimizer_ns, file.costs.optimizer_ns);
  // Stages 0 and 1 are the first rank's whole stage, 2 and 3 the second's.
  const CostsFile looped = recut(file, given, Placement::loop(2, 2));
  EXPECT_EQ(looped.costs.optimizer_ns, (std::vector<std::int64_t>{5 + 15, 5 + 16}));
  const CostsFile folded = recut(looped, Placement::loop(2, 2), Placement::v(2, 2));
  EXPECT_EQ(std::accumulate(folded.costs.optimizer_ns.begin(), folded.costs.optimizer_ns.end(), 0),
            41);
  // Each rank has a copy of both.
  const CostsFile twice = recut(file, given, Placement::both_ways(2, 4));
  EXPECT_EQ(twice.costs.stages.size(), 2U);
  EXPECT_EQ(twice.costs.optimizer_ns, (std::vector<std::int64_t>{10 + 31, 31 + 10}));
  // And back: of what both ranks do for a stage, the mean.
  const CostsFile once = recut(twice, Placement::both_ways(2, 4), given);
  EXPECT_EQ(once.costs.optimizer_ns, (std::vector<std::int64_t>{20, 21}));
}

// What a rank computes is the same, however many chunks it has.
TEST(Recut, RanksAreAsBusy) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 40; ++i) {
    const auto ranks = static_cast<int>(pick(random, 1, 4));
    CostsFile file;
    file.costs = testing::costs_of(ranks, pick(random, 1, 99), pick(random, 1, 99));
    const auto busy = [&](const char* name, int chunks) {
      const Schedule schedule =
          generate({.name = name, .ranks = ranks, .microbatches = 2 * ranks, .chunks = chunks});
      const CostsFile cut = recut(file, Placement::loop(ranks, 1), schedule.placement);
      std::vector<std::int64_t> all;
      for (const RankMetrics& rank : simulate(schedule, cut.costs).ranks) {
        all.push_back(rank.busy_ns);
      }
      // Chunks of a rank are different parts of the model, whose parts differ by 1 ns.
      return std::accumulate(all.begin(), all.end(), std::int64_t{0});
    };
    for (const int chunks : {2, 3, 5}) EXPECT_EQ(busy("bfs", chunks), busy("gpipe", 1));
  }
}

}  // namespace
}  // namespace pipesim
