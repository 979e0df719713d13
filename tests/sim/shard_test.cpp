// Data-parallel schedules: where gradients are reduced, and weights gathered and
// released.
#include "sim/schedule/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/errors.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using testing::pick;
using Gathers = ReplicaSharding::Gather;
using Reduces = ReplicaSharding::Reduce;

std::string sharded(const std::string& csv, const ReplicaSharding& sharding) {
  return to_csv(shard(parse_csv(csv, "s.csv"), sharding));
}

const std::string csv_of_two_ranks =
    "0F0,0F1,0I0,0W0,0B1\r\n"
    "1F0,1B0,1F1,1I1,1W1\r\n";

TEST(Shard, ReducesBehindTheLastBackward) {
  EXPECT_EQ(sharded(csv_of_two_ranks, {}),
            "0F0,0F1,0I0,0W0,0B1,0REDUCE_GRAD\r\n"
            "1F0,1B0,1F1,1I1,1W1,1REDUCE_GRAD\r\n");
  // The stage that is through first is reduced first, and of an overlapped cell
  // behind all of it.
  const std::string two_stages =
      "0F0,2F0,2B0,0B0,0F1,(2F1;0B1)OVERLAP_F_B,2B1\r\n"
      "1F0,1B0,1F1,1B1\r\n";
  EXPECT_EQ(sharded(two_stages, {}),
            "0F0,2F0,2B0,0B0,0F1,(2F1;0B1)OVERLAP_F_B,0REDUCE_GRAD,2B1,2REDUCE_GRAD\r\n"
            "1F0,1B0,1F1,1B1,1REDUCE_GRAD\r\n");
  EXPECT_EQ(sharded(two_stages, {Reduces::after_compute}),
            "0F0,2F0,2B0,0B0,0F1,(2F1;0B1)OVERLAP_F_B,2B1,0REDUCE_GRAD,2REDUCE_GRAD\r\n"
            "1F0,1B0,1F1,1B1,1REDUCE_GRAD\r\n");
}

TEST(Shard, ReducesBehindEveryBackward) {
  EXPECT_EQ(sharded(csv_of_two_ranks, {Reduces::every_backward}),
            "0F0,0F1,0I0,0W0,0REDUCE_GRAD,0B1,0REDUCE_GRAD\r\n"
            "1F0,1B0,1REDUCE_GRAD,1F1,1I1,1W1,1REDUCE_GRAD\r\n");
  EXPECT_EQ(sharded(csv_of_two_ranks, {Reduces::never}), csv_of_two_ranks);
}

TEST(Shard, GathersForEveryPass) {
  // I and its W are one backward.
  EXPECT_EQ(sharded(csv_of_two_ranks, {Reduces::last_backward, Gathers::every_pass}),
            "0UNSHARD,0F0,0RESHARD,0UNSHARD,0F1,0RESHARD,0UNSHARD,0I0,0W0,0RESHARD,"
            "0UNSHARD,0B1,0REDUCE_GRAD,0RESHARD\r\n"
            "1UNSHARD,1F0,1RESHARD,1UNSHARD,1B0,1RESHARD,1UNSHARD,1F1,1RESHARD,"
            "1UNSHARD,1I1,1W1,1REDUCE_GRAD,1RESHARD\r\n");
  EXPECT_EQ(sharded("0F0,1F0,1B0,(0F1;0B0)OVERLAP_F_B,1F1,1B1,0B1\r\n",
                    {Reduces::never, Gathers::every_pass}),
            "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1RESHARD,1UNSHARD,1B0,1RESHARD,0UNSHARD,"
            "(0F1;0B0)OVERLAP_F_B,0RESHARD,1UNSHARD,1F1,1RESHARD,1UNSHARD,1B1,1RESHARD,0UNSHARD,"
            "0B1,0RESHARD\r\n");
}

TEST(Shard, GathersOnce) {
  EXPECT_EQ(sharded(csv_of_two_ranks, {Reduces::last_backward, Gathers::once}),
            "0UNSHARD,0F0,0F1,0I0,0W0,0B1,0REDUCE_GRAD,0RESHARD\r\n"
            "1UNSHARD,1F0,1B0,1F1,1I1,1W1,1REDUCE_GRAD,1RESHARD\r\n");
  // Stages of a cell come together, and those that end with one go in their order.
  EXPECT_EQ(
      sharded("0F0,1F0,1B0,0F1,(1F1;0B0)OVERLAP_F_B,1B1,0B1\r\n", {Reduces::never, Gathers::once}),
      "0UNSHARD,0F0,1UNSHARD,1F0,1B0,0F1,(1F1;0B0)OVERLAP_F_B,1B1,1RESHARD,0B1,0RESHARD\r\n");
}

TEST(Shard, GathersAhead) {
  const auto ahead = [](const std::string& csv) {
    return to_csv(gather_ahead(parse_csv(csv, "two.csv")));
  };
  EXPECT_EQ(ahead("0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD\r\n"),
            "0UNSHARD,1UNSHARD,0F0,1F0,1B0,1RESHARD,1REDUCE_GRAD,0B0,0RESHARD,0REDUCE_GRAD\r\n");
  // In the order of use, and behind cells that are last for both.
  EXPECT_EQ(ahead("0F0,1F0,1B0,0F1,1F1,1B1,0B0,0B1\r\n"),
            "0UNSHARD,1UNSHARD,0F0,1F0,1B0,0F1,1F1,1B1,1RESHARD,0B0,0B1,0RESHARD\r\n");
  EXPECT_EQ(testing::input_error_of([&] { ahead("0UNSHARD,0F0,0B0,0RESHARD"); }),
            "two.csv: already has 0UNSHARD; gather in a schedule without such actions");
}

// Of three stages on a rank, as PyTorch's _add_unshard_reshard.
TEST(Shard, KeepsAWindowOfStages) {
  const std::string loop = "0F0,1F0,2F0,2B0,1B0,0B0\r\n";
  EXPECT_EQ(sharded(loop, {Reduces::never, Gathers::window, 1}),
            "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1RESHARD,2UNSHARD,2F0,2B0,2RESHARD,1UNSHARD,1B0,"
            "1RESHARD,0UNSHARD,0B0,0RESHARD\r\n");
  EXPECT_EQ(sharded(loop, {Reduces::never, Gathers::window, 2}),
            "0UNSHARD,1UNSHARD,0F0,0RESHARD,2UNSHARD,1F0,2F0,2B0,2RESHARD,0UNSHARD,1B0,1RESHARD,"
            "0B0,0RESHARD\r\n");
  EXPECT_EQ(sharded(loop, {Reduces::last_backward, Gathers::window, 3}),
            "0UNSHARD,1UNSHARD,2UNSHARD,0F0,1F0,2F0,2B0,2REDUCE_GRAD,2RESHARD,1B0,1REDUCE_GRAD,"
            "1RESHARD,0B0,0REDUCE_GRAD,0RESHARD\r\n");
  // A cell's two stages come together.
  EXPECT_EQ(sharded("0F0,1F0,1B0,(0F1;0B0)OVERLAP_F_B,1F1,1B1,0B1\r\n",
                    {Reduces::never, Gathers::window, 1}),
            "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1B0,1RESHARD,0UNSHARD,(0F1;0B0)OVERLAP_F_B,"
            "0RESHARD,1UNSHARD,1F1,1B1,1RESHARD,0UNSHARD,0B1,0RESHARD\r\n");
  EXPECT_EQ(sharded("0F0,1F0,1B0,0F1,(1F1;0B0)OVERLAP_F_B,1B1,0B1\r\n",
                    {Reduces::never, Gathers::window, 1}),
            "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1B0,1RESHARD,0UNSHARD,0F1,1UNSHARD,"
            "(1F1;0B0)OVERLAP_F_B,0RESHARD,1B1,1RESHARD,0UNSHARD,0B1,0RESHARD\r\n");
}

TEST(Shard, RefusesWhatItWouldDoTwice) {
  EXPECT_EQ(testing::input_error_of([] { sharded("0F0,0B0,0REDUCE_GRAD\r\n", {}); }),
            "s.csv: already has 0REDUCE_GRAD; shard a schedule without such actions");
  EXPECT_EQ(testing::input_error_of([] {
              sharded("0F0,0B0\r\n", {Reduces::never, Gathers::window, 0});
            }),
            "s.csv: a window of 0 active stages holds none; use at least 1");
}

// At each action its stage is gathered, no more are than the window has, twice none
// is, and at the end none; each stage is reduced as often as said, the last time
// behind its last gradients; everything else stays as it is.
void check(const Schedule& before, const ReplicaSharding& sharding) {
  const Schedule after = shard(before, sharding);
  EXPECT_EQ(to_csv(without_replicas(after)), to_csv(before));
  EXPECT_FALSE(find_fault(after));
  EXPECT_FALSE(find_deadlock(after, SendMode::buffered));
  std::vector<int> reduced(static_cast<std::size_t>(before.stages()));
  std::vector<int> last_gradients(reduced.size());
  std::vector<int> gathered(reduced.size());
  for (int rank = 0; rank < before.ranks(); ++rank) {
    const auto list = after.actions[rank];
    // The stages of an overlapped cell come together.
    const bool overlaps = std::ranges::any_of(list, &Action::joined);
    const auto most = static_cast<std::size_t>(sharding.active_stages) + (overlaps ? 1 : 0);
    std::set<int> held;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Action& action = list[i];
      const auto stage = static_cast<std::size_t>(action.stage);
      if (action.kind == Kind::UNSHARD) {
        EXPECT_TRUE(held.insert(action.stage).second);
        ++gathered[stage];
      } else if (action.kind == Kind::RESHARD) {
        EXPECT_EQ(held.erase(action.stage), 1U);
      } else if (action.kind == Kind::REDUCE_GRAD) {
        ++reduced[stage];
        EXPECT_GT(last_gradients[stage], 0);
        last_gradients[stage] = 0;
      } else if (is_compute(action.kind) && sharding.gather != Gathers::never) {
        EXPECT_TRUE(held.contains(action.stage)) << to_text(action);
        if (sharding.gather == Gathers::window) {
          EXPECT_LE(held.size(), most);
        }
      }
      if (action.kind == Kind::B || action.kind == Kind::W) ++last_gradients[stage];
    }
    EXPECT_TRUE(held.empty());
  }
  const int expected = sharding.reduce == Reduces::never            ? 0
                       : sharding.reduce == Reduces::every_backward ? before.microbatches
                                                                    : 1;
  EXPECT_EQ(reduced, std::vector<int>(reduced.size(), expected));
  if (sharding.gather == Gathers::once) {
    EXPECT_EQ(gathered, std::vector<int>(reduced.size(), 1));
  }
  if (expected > 0) {
    EXPECT_EQ(last_gradients, std::vector<int>(reduced.size()));
  }
}

TEST(Shard, KeepsItsPromisesForAnySchedule) {
  std::mt19937_64 random(31);
  for (int i = 0; i < 400; ++i) {
    const Schedule compute = testing::random_schedule(random);
    const ReplicaSharding sharding{static_cast<Reduces>(pick(random, 0, 3)),
                                   static_cast<Gathers>(pick(random, 0, 3)),
                                   static_cast<int>(pick(random, 1, 4))};
    SCOPED_TRACE(to_csv(compute));
    check(compute, sharding);
    check(lower(compute), sharding);
    if (HasFailure()) return;
  }
}

// Lowering leaves the actions where they are among what their rank computes.
TEST(Shard, SurvivesLowering) {
  std::mt19937_64 random(32);
  for (int i = 0; i < 200; ++i) {
    const Schedule compute = testing::random_schedule(random);
    const ReplicaSharding sharding{static_cast<Reduces>(pick(random, 0, 3)),
                                   static_cast<Gathers>(pick(random, 0, 3)),
                                   static_cast<int>(pick(random, 1, 4))};
    const Schedule after = shard(compute, sharding);
    const Schedule program = lower(after);
    EXPECT_FALSE(find_fault(program));
    for (const SendMode mode : all_send_modes()) {
      EXPECT_FALSE(find_deadlock(program, mode));
    }
    for (int rank = 0; rank < compute.ranks(); ++rank) {
      std::vector<Action> rest;
      std::ranges::copy_if(program.actions[rank], std::back_inserter(rest),
                           [](const Action& a) { return !is_transfer(a.kind); });
      std::vector<Action> expected;
      std::ranges::copy_if(after.actions[rank], std::back_inserter(expected),
                           [](const Action& a) { return a.kind != Kind::IDLE; });
      ASSERT_EQ(rest, expected) << to_csv(compute);
    }
  }
}

}  // namespace
}  // namespace pipesim
