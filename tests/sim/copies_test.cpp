// Schedules with two copies of each stage: what they are refused for, how files say them, and
// what they take on ranks that differ.
#include <gtest/gtest.h>

#include "sim/cost/costs.h"
#include "sim/engine/simulate.h"
#include "sim/request/cost_changes.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/program_text.h"
#include "sim/schedule/unroll.h"
#include "tests/errors.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

Schedule dualpipe(int ranks, int microbatches) {
  return generate({"dualpipe", ranks, microbatches});
}

TEST(Copies, LiveOnMirroredRanks) {
  const Placement placement = Placement::both_ways(4, 8);
  EXPECT_EQ(placement.ranks(), 4);
  EXPECT_EQ(placement.stages(), 4);
  EXPECT_EQ(placement.copies(), 2);
  EXPECT_EQ(placement.virtual_stages(), 1);
  EXPECT_TRUE(placement.even());
  EXPECT_FALSE(placement.is_loop());
  for (int stage = 0; stage < 4; ++stage) {
    for (int microbatch = 0; microbatch < 8; ++microbatch) {
      const Action action = make_action(stage, Kind::F, microbatch);
      EXPECT_EQ(placement.rank_of(action), microbatch < 4 ? stage : 3 - stage);
      // A further iteration's.
      const Action later = make_action(stage, Kind::F, microbatch + 8);
      EXPECT_EQ(placement.rank_of(later), placement.rank_of(action));
    }
    EXPECT_EQ(placement.name_stage(stage), stage) << "of ranks, each another";
    EXPECT_EQ(placement.stages_of(stage).size(), 2U);
    EXPECT_TRUE(placement.has(stage, stage) && placement.has(stage, 3 - stage));
  }
  EXPECT_EQ(testing::input_error_of([] {
              Placement({0, 1}, {0, 1}, 4);
            }),
            "placement: the copies of stage 0 must live on two ranks, on both after as many "
            "others");
}

TEST(Copies, AreReadFromAFile) {
  for (const auto& [ranks, microbatches] : {std::pair(2, 4), {4, 8}, {6, 14}}) {
    const Schedule schedule = dualpipe(ranks, microbatches);
    for (const Schedule& one : {schedule, lower(schedule)}) {
      const Schedule again = parse_csv(to_csv(one), "f.csv");
      EXPECT_EQ(again.placement, schedule.placement);
      EXPECT_EQ(to_csv(again), to_csv(one));
      const Schedule program =
          parse_program(to_program_text(lower(schedule), TransferLane::edge), "f.program");
      EXPECT_EQ(program.placement, schedule.placement);
    }
  }
}

TEST(Copies, FilesThatDealThemOutOtherwiseAreRefused) {
  const auto error = [](const std::string& text) {
    return testing::input_error_of([&] { parse_csv(text, "f.csv"); });
  };
  // Microbatch 1 of two is the second half's.
  EXPECT_EQ(error("0F0,0B0,1F1,1B1\n1F0,1B0,0F1,0B1\n"), testing::no_error);
  EXPECT_EQ(error("0F0,0B0,1F1,1B1\n1F0,1B0,0F1,0B1,0F2,0B2\n"),
            "f.csv:2:1: stage 1 is on rank 0 too; a stage lives on one rank, or each stage on "
            "two, of which one has the first half of the microbatches");
  Schedule wrong = dualpipe(2, 4);
  for (Action& action : wrong.actions[0]) {
    if (action.microbatch == 0) action.microbatch = 2;
  }
  const auto fault = find_fault(wrong);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->rule, "0F2 is on rank 0, but stage 0 lives on rank 1 for this microbatch");
}

// (p/2-1)(F&B+B-3W) of every rank, with F&B no longer than F + B, and p+1 activations.
TEST(Copies, DualPipesBubbleIsAsPublished) {
  for (const int p : {2, 4, 6, 8}) {
    for (const int m : {2 * p, 2 * p + 2, 4 * p}) {
      const Schedule schedule = dualpipe(p, m);
      const Metrics metrics = simulate(schedule, testing::costs_of(p, 100, 200));
      EXPECT_EQ(metrics.makespan_ns - m * 300, (p / 2 - 1) * (300 + 200 - 300)) << p << " " << m;
      for (const RankMetrics& rank : metrics.ranks) {
        EXPECT_EQ(rank.busy_ns, m * 300);
        EXPECT_EQ(rank.peak_activation_chunks, p + 1) << p << " " << m;
      }
    }
  }
}

// A slow rank slows its own copies down, not those of other ranks.
TEST(Copies, ARankIsSlowByItself) {
  const Schedule schedule = dualpipe(4, 8);
  Costs costs = testing::costs_of(4, 100, 200);
  for (const TimeChange& change : parse_slow_ranks("1:2")) {
    apply(change, schedule.placement, costs);
  }
  const Metrics metrics = simulate(schedule, costs);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(metrics.ranks[static_cast<std::size_t>(rank)].busy_ns, (rank == 1 ? 2 : 1) * 2400);
  }
}

TEST(Copies, NoTransportDeadlocksOnThem) {
  for (const int p : {2, 4, 8}) {
    const Schedule program = lower(dualpipe(p, 2 * p + 4));
    EXPECT_FALSE(find_fault(program));
    for (const SendMode mode : all_send_modes())
      EXPECT_EQ(find_deadlock(program, mode), std::nullopt);
    EXPECT_FALSE(find_fault(unroll(program, 1)));
  }
}

// Each rank holds both of its stages.
TEST(Copies, StatesAreThereTwice) {
  const Placement placement = Placement::both_ways(4, 8);
  Costs costs = testing::costs_of(4, 1, 2);
  for (int stage = 0; stage < 4; ++stage) {
    costs.stages[static_cast<std::size_t>(stage)].weight_bytes = 1 << (4 * stage);
  }
  const auto states = costs.states(placement);
  EXPECT_EQ(states[0].weights, 0x1001);
  EXPECT_EQ(states[1].weights, 0x0110);
  EXPECT_EQ(states[2].weights, 0x0110);
  EXPECT_EQ(states[3].weights, 0x1001);
}

}  // namespace
}  // namespace pipesim
