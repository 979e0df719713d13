// Backwards with the forward behind them in one cell.
#include "sim/schedule/pair.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/cost/estimate/cost_model.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "tests/ideal_cluster.h"

namespace pipesim {
namespace {

std::vector<Action> sorted(const Schedule& schedule, int rank) {
  std::vector<Action> list(schedule.actions[rank].begin(), schedule.actions[rank].end());
  for (Action& action : list) action.joined = false;
  std::ranges::sort(
      list, {}, [](const Action& one) { return std::tuple(one.stage, one.microbatch, one.kind); });
  return list;
}

TEST(Pair, KeepsEveryActionAndRuns) {
  for (const int ranks : {2, 4, 8}) {
    for (const int chunks : {2, 3}) {
      const Schedule plain = generate({"interleaved", ranks, 3 * ranks, chunks});
      const Schedule paired = pair_neighbours(plain);
      EXPECT_FALSE(find_fault(paired));
      EXPECT_FALSE(find_deadlock(paired, SendMode::buffered));
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(sorted(paired, rank), sorted(plain, rank));
        EXPECT_TRUE(std::ranges::any_of(paired.actions[rank], &Action::joined));
      }
    }
  }
}

// F0, B0 and F1, B1 and F2, ..., the last B.
TEST(Pair, OfALoneRankIsOneAhead) {
  const Schedule paired = pair_neighbours(generate({"1f1b", 1, 4, {}}));
  std::string text;
  for (const Action& action : paired.actions[0]) {
    text += to_text(action) + (action.joined ? "+" : " ");
  }
  EXPECT_EQ(text, "0F0 0F1+0B0 0F2+0B1 0F3+0B2 0B3 ");
}

TEST(Pair, HasNothingToJoinWithoutBackwards) {
  const Schedule plain = generate({"gpipe", 4, 8, {}});
  EXPECT_EQ(pair_neighbours(plain).actions.all().size(), plain.actions.all().size());
  EXPECT_FALSE(std::ranges::any_of(pair_neighbours(plain).actions.all(), &Action::joined));
}

// A pair takes what both take, without what is hidden: at least either alone, and no longer.
TEST(Pair, HidesExchangesOfExperts) {
  Model model = testing::llama(16);
  model.experts = 16;
  model.experts_per_token = 4;
  model.expert_size = 512;
  model.kinds = {BlockKind{.has_experts = true}};
  Training training = testing::training(1, 4096);
  training.attention = Attention::fused;
  training.data_parallel = 16;
  training.expert_parallel = 16;
  Cluster cluster = testing::ideal_cluster();
  cluster.device.multiprocessors = 100;
  const CostModel costs(model, cluster, training);
  const LayerEstimate& block = costs.layer(1);
  const auto exchanged = [](const ClassSeconds& of) {
    return of[static_cast<std::size_t>(OperatorClass::expert_parallel)];
  };
  const double all = exchanged(block.forward) + exchanged(block.backward);
  EXPECT_GT(block.hidden_by_pair_seconds, 0);
  // While it is exchanged compute has 80 of 100 multiprocessors.
  EXPECT_LE(block.hidden_by_pair_seconds, 0.8 * all);
  const StageCosts stage = costs.costs({Placement::loop(1, 1), false, {}}).stages[0];
  ASSERT_TRUE(stage.overlap_ns);
  EXPECT_GE(*stage.overlap_ns, std::max(stage.forward_ns, stage.backward_ns()));
  EXPECT_NEAR(static_cast<double>(stage.forward_ns + stage.backward_ns() - *stage.overlap_ns),
              4e9 * block.hidden_by_pair_seconds, 8);
  // Where nothing leaves the rank nothing is hidden.
  training.expert_parallel = 1;
  const CostModel alone(model, cluster, training);
  EXPECT_FALSE(alone.costs({Placement::loop(1, 1), false, {}}).stages[0].overlap_ns);
}

}  // namespace
}  // namespace pipesim
