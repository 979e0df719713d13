// Where the devices of a training stand, and what its replicas exchange beside
// compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/cost/estimate/collective_times.h"
#include "sim/cost/estimate/cost_model.h"
#include "sim/cost/estimate/replicas.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/ideal_cluster.h"

namespace pipesim {
namespace {

// For the sum of tied gradients, in addition to its latency.
std::int64_t carrying_ns(const Costs& costs) {
  const GroupCosts& sum = costs.tied_gradients.value();
  return costs.occupied_ns(sum.link(), sum.bytes);
}

using testing::gpt;
using testing::ideal_cluster;
using testing::training;

Schedule without_reductions(const Schedule& schedule) {
  ActionLists lists;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    lists.add_rank();
    for (const Action& action : schedule.actions[rank]) {
      if (action.kind != Kind::REDUCE_GRAD) lists.add(action);
    }
  }
  return schedule.with(std::move(lists));
}

double parameters_of(const CostModel& costs) {
  double all = 0;
  for (int layer = 0; layer < costs.model().layers(); ++layer) {
    all += static_cast<double>(costs.layer(layer).parameters);
  }
  return all;
}

// ---- Where devices stand

// A table and its copy at both ends of one node: its links carry their sum, however
// far apart they are.
TEST(ReplicaCosts, TiedEndsOfOneNodeNeedNoNetwork) {
  Cluster node = ideal_cluster();
  node.network = {};
  const CostModel model(gpt(8, 1024, 16), node, training(1, 512));
  for (const int ranks : {2, 5, 6, 8}) {
    const Costs costs = model.costs({Placement::loop(ranks, 1), false, {}});
    ASSERT_TRUE(costs.tied_gradients && costs.gradient_norm);
    const double bytes = 2.0 * 51200 * 1024;
    const Placement placement = Placement::loop(ranks, 1);
    EXPECT_NEAR(static_cast<double>(costs.group_ns(Kind::REDUCE_TIED, placement)),
                1e4 + bytes / 100, 1)
        << ranks;
    EXPECT_GE(costs.group_ns(Kind::GRAD_NORM, placement), 10'000) << ranks;
    EXPECT_TRUE(costs.tied_gradients->through.empty() && costs.gradient_norm->through.empty());
    EXPECT_TRUE(costs.reduce_gradients_ns.empty());
  }
}

// From node to node it goes through cards of both, as messages between the same ranks do.
TEST(ReplicaCosts, TiedEndsOfTwoNodesShareTheirCards) {
  Cluster cluster = ideal_cluster();
  cluster.devices_per_node = 1;
  const CostModel model(gpt(8, 1024, 16), cluster, training(1, 512));
  const Costs costs = model.costs({Placement::loop(3, 1), false, {}});
  std::vector<std::string> names;
  for (const int link : costs.tied_gradients.value().through) {
    names.push_back(costs.shared_links[static_cast<std::size_t>(link)].name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"node 0 card 0 out", "node 0 card 0 in",
                                             "node 2 card 0 out", "node 2 card 0 in"}));
  EXPECT_EQ(costs.gradient_norm.value().through.size(), 6U);
  const Costs pair = model.costs({Placement::loop(2, 1), false, {}});
  for (const int link : pair.link(0, 1).through) {
    EXPECT_EQ(std::ranges::count(pair.tied_gradients.value().through, link), 1);
  }
}

TEST(ReplicaCollectives, TheNodeWithFewestMembersSetsTheRings) {
  const Cluster cluster = ideal_cluster();
  const auto rate = [&](const Group& group) {
    const Exchange one = exchange(cluster, group, CollectiveKind::all_reduce, 1e9);
    return one.leaves_node ? 2.0 * static_cast<double>(group.devices.count - 1) /
                                 static_cast<double>(group.devices.count) * 1e9 / one.bytes
                           : 0.0;
  };
  EXPECT_EQ(rate({{0, 1, 8}}), 0);
  EXPECT_DOUBLE_EQ(rate({{0, 1, 16}}), 8);
  EXPECT_DOUBLE_EQ(rate({{0, 1, 9}}), 1);  // a lone member in the second node
  EXPECT_DOUBLE_EQ(rate({{5, 1, 5}}), 2);  // three devices here, two there
  EXPECT_EQ(rate({{0, 1, 5}}), 0);
  EXPECT_DOUBLE_EQ(rate({{0, 8, 4}}), 1);
  EXPECT_EQ(rate({{0, 6, 2}}), 0);  // devices 0 and 6
  EXPECT_DOUBLE_EQ(rate({{6, 6, 2}}), 1);
}

// Replicas of t tensor-parallel ranks: t groups pass what they reduce through a node's cards.
TEST(ReplicaCollectives, WithoutRailsGroupsOfSeveralMembersMeetOnOneCard) {
  Cluster cluster = ideal_cluster();
  cluster.node.collectives = {{2, 900'000'000'000, 0, {}}};
  cluster.network.cards_per_node = 4;
  const auto seconds = [&](int t) {
    return exchange(cluster, {{0, t, 64 / t}}, CollectiveKind::all_reduce, 1e9).seconds();
  };
  const auto through_cards = [&](int t, int cards) {
    const double replicas = 64.0 / t;
    return 2 * (replicas - 1) / replicas * 1e9 * t / (cards * 25e9);
  };
  for (const int t : {1, 2, 4, 8}) EXPECT_DOUBLE_EQ(seconds(t), through_cards(t, 4)) << t;
  cluster.network.rail_aligned = false;
  EXPECT_DOUBLE_EQ(seconds(1), through_cards(1, 4));  // the only group
  EXPECT_DOUBLE_EQ(seconds(2), through_cards(2, 1));
  EXPECT_DOUBLE_EQ(seconds(4), through_cards(4, 1));
  EXPECT_DOUBLE_EQ(seconds(8), through_cards(8, 4));  // one member a node
}

// Two members are in the second node, whose other devices use its card, too.
TEST(ReplicaCollectives, ACrowdGetsNoMoreThanTheNodesDevices) {
  Cluster cluster = ideal_cluster();
  cluster.network.cards_per_node = 1;
  const Group group{{0, 2, 6}};
  const Exchange aligned = exchange(cluster, group, CollectiveKind::all_reduce, 1e9);
  cluster.network.rail_aligned = false;
  const Exchange crowded = exchange(cluster, group, CollectiveKind::all_reduce, 1e9);
  EXPECT_DOUBLE_EQ(aligned.bytes_per_second, 25e9 / 8);
  EXPECT_DOUBLE_EQ(crowded.bytes_per_second, 25e9 / 8);
}

// Of groups side by side the one that crosses nodes counts, with its fewest members.
TEST(ReplicaCollectives, TheGroupThatIsWorstOffCounts) {
  const Cluster cluster = ideal_cluster();
  const auto slowest = [&](const Group& group) {
    return exchange(cluster, group, CollectiveKind::all_reduce, 1e9);
  };
  EXPECT_FALSE(slowest({{0, 1, 3}, 2, 3}).leaves_node);
  const Exchange third = slowest({{0, 1, 3}, 3, 3});  // devices 6, 7 and 8
  EXPECT_TRUE(third.leaves_node);
  EXPECT_DOUBLE_EQ(third.bytes, 2.0 * 2 / 3 * 1e9);
  EXPECT_DOUBLE_EQ(slowest({{0, 1, 6}, 4, 6}).bytes, 2.0 * 5 / 6 * 1e9 / 2);
  // The pattern repeats: devices 9 and 10 are as 1 and 2.
  EXPECT_DOUBLE_EQ(slowest({{0, 1, 3}, 1'000'000'000'000, 3}).bytes, third.bytes);
  EXPECT_FALSE(slowest({{0, 4, 2}, 4}).leaves_node);
  EXPECT_TRUE(slowest({{0, 4, 2}, 5}).leaves_node);  // devices 4 and 8
}

TEST(ReplicaCollectives, WithoutANetworkNothingLeavesANode) {
  Cluster node = ideal_cluster();
  node.network = {};
  EXPECT_EQ(testing::input_error_of([&] {
              exchange(node, {{0, 8, 2}}, CollectiveKind::all_reduce, 1e9);
            }),
            "ideal has no network, but devices 0 and 8 exchange data; use at most the 8 devices of "
            "a node, or describe its network");
  node.devices_per_node = 1;
  EXPECT_EQ(testing::input_error_of([&] {
              exchange(node, {{0, 1, 2}}, CollectiveKind::all_reduce, 1e9);
            }),
            "ideal has no network, but devices 0 and 1 exchange data; use at most the 1 device of "
            "a node, or describe its network");
}

// With five replicas a rank, only replica 0 has both ranks in one node.
TEST(ReplicaCosts, LinksAreThoseOfTheReplicaThatIsWorstOff) {
  Training how = training(1, 512);
  const auto leaves = [&](int replicas) {
    how.data_parallel = replicas;
    const CostModel model(gpt(4, 1024, 16), ideal_cluster(), how);
    return !model.costs({Placement::loop(2, 1), false, {}}).link(0, 1).through.empty();
  };
  EXPECT_FALSE(leaves(1));
  EXPECT_FALSE(leaves(4));
  EXPECT_TRUE(leaves(5));
  EXPECT_TRUE(leaves(8));
}

// With five replicas a rank, devices 4 and 9 have the table and its copy in two nodes.
TEST(ReplicaCosts, TiedEndsAreThoseOfTheReplicaThatIsWorstOff) {
  Training how = training(1, 512);
  how.data_parallel = 5;
  Model model = gpt(4, 1024, 16);
  const Placement placement = Placement::loop(2, 1);
  const auto costs = [&] {
    return CostModel(model, ideal_cluster(), how).costs({placement, false, {}});
  };
  EXPECT_NEAR(static_cast<double>(carrying_ns(costs())), 2.0 * 51200 * 1024 / 25, 2);
  model.tied_head = false;
  EXPECT_FALSE(costs().tied_gradients);
}

// Replicas that keep an eighth of their gradients sum an eighth of the table's.
TEST(ReplicaCosts, TiedEndsSumTheGradientsThatTheyKeep) {
  Training how = training(1, 512);
  how.data_parallel = 8;
  Model model = gpt(4, 1024, 16);
  for (const int zero : {0, 1, 2, 3}) {
    how.zero = zero;
    const Costs costs =
        CostModel(model, ideal_cluster(), how).costs({Placement::loop(3, 1), {}, {}});
    EXPECT_NEAR(static_cast<double>(carrying_ns(costs)),
                2.0 * 51200 * 1024 / 25 / (zero < 2 ? 1 : 8), 2)
        << zero;
  }
}

// Three share, of nine: devices 6 to 8 are in two nodes, and so are those that hold
// the same as 8.
TEST(EstimateReplicas, TheShardsThatAreWorstOffCount) {
  Training how = training(1, 512);
  how.data_parallel = 9;
  how.zero = 1;
  how.shard_over = 3;
  Model model = gpt(4, 1024, 16);
  model.tied_head = false;
  const CostModel costs(model, ideal_cluster(), how);
  const double n = parameters_of(costs);
  const std::int64_t reduction =
      costs.costs({Placement::loop(1, 1), false, {}}).reduce_gradients_ns[0];
  const double scatter = 2.0 / 3;
  const double sum = 2 * 2.0 / 3 / 3;
  EXPECT_NEAR(static_cast<double>(reduction), (scatter + sum + scatter) * 2 * n / 25, 2);
}

// ---- Replicas that exchange concurrently with compute

TEST(EstimateReplicas, BucketsAndPartsBecomeCollectives) {
  Training how = training(1, 512);
  how.data_parallel = 16;
  how.bucket_bytes = 10'000'000;
  Model model = gpt(4, 1024, 16);
  model.tied_head = false;
  const auto costs_of = [&] {
    return CostModel(model, ideal_cluster(), how).costs({Placement::loop(2, 1), false, {}});
  };
  const std::int64_t n = CostModel(model, ideal_cluster(), how).layer(0).parameters +
                         2 * CostModel(model, ideal_cluster(), how).layer(1).parameters;
  const Costs buckets = costs_of();
  EXPECT_TRUE(buckets.reduce_gradients_ns.empty());
  // Rings through eight devices a node: an eighth of the ring's volume through each card.
  EXPECT_NEAR(static_cast<double>(buckets.stages[0].reduce.bytes),
              2.0 * 15 / 16 * 2 * static_cast<double>(n) / 8, 1);
  EXPECT_EQ(buckets.stages[0].reduce.parts, (2 * n + 9'999'999) / 10'000'000);
  // Each bucket is an all-reduce: within both nodes before and after it leaves them.
  EXPECT_EQ(buckets.stages[0].reduce.latency_ns, 80'000 * buckets.stages[0].reduce.parts);
  EXPECT_FALSE(buckets.stages[0].unshard.exists());
  ASSERT_EQ(buckets.collective_links.size(), 2);
  EXPECT_EQ(buckets.collective_links[0].through.size(), 2);

  how.bucket_bytes.reset();
  how.zero = 3;
  const Costs parts = costs_of();
  EXPECT_NEAR(static_cast<double>(parts.stages[0].unshard.bytes),
              15.0 / 16 * 2 * static_cast<double>(n) / 8, 1);
  EXPECT_EQ(parts.stages[0].unshard.parts, 3);
  EXPECT_EQ(parts.stages[0].unshard.latency_ns, 3 * 40'000);
  EXPECT_EQ(parts.stages[0].reduce.latency_ns, 3 * 40'000);
  EXPECT_EQ(parts.stages[0].unsharded_bytes, 2 * n);
  EXPECT_NEAR(static_cast<double>(parts.stages[0].reduce.bytes),
              15.0 / 16 * 2 * static_cast<double>(n) / 8, 1);
}

TEST(EstimateReplicas, ProgramsReduceAndGatherAsTrainingSays) {
  const Schedule plain = parse_csv("0F0,0F1,0B0,0B1\n", "one.csv");
  const auto row = [&](int zero, std::optional<std::int64_t> bucket) {
    Training how = training(1, 512);
    how.data_parallel = 4;
    how.zero = zero;
    how.bucket_bytes = bucket;
    return csv_row(with_replicas(plain, how).actions[0]);
  };
  EXPECT_EQ(row(0, {}), "0F0,0F1,0B0,0B1");
  EXPECT_EQ(row(1, {}), "0F0,0F1,0B0,0B1");
  EXPECT_EQ(row(0, 1000), "0F0,0F1,0B0,0B1,0REDUCE_GRAD");
  EXPECT_EQ(row(2, {}), "0F0,0F1,0B0,0REDUCE_GRAD,0B1,0REDUCE_GRAD");
  EXPECT_EQ(row(3, {}),
            "0UNSHARD,0F0,0RESHARD,0UNSHARD,0F1,0RESHARD,0UNSHARD,0B0,0REDUCE_GRAD,0RESHARD,"
            "0UNSHARD,0B1,0REDUCE_GRAD,0RESHARD");
}

TEST(EstimateReplicas, ProgramsGatherNewWeightsAhead) {
  Training how = training(1, 512);
  how.data_parallel = 4;
  how.gathers_ahead = true;
  const auto row = [&](int zero, std::optional<std::int64_t> bucket, const char* csv) {
    how.zero = zero;
    how.bucket_bytes = bucket;
    return csv_row(with_replicas(parse_csv(csv, "one.csv"), how).actions[0]);
  };
  const char* plain = "0F0,0F1,0B0,0B1";
  EXPECT_EQ(row(0, {}, plain), plain);  // each steps all
  EXPECT_EQ(row(1, {}, plain), "0UNSHARD,0F0,0F1,0B0,0B1,0RESHARD");
  EXPECT_EQ(row(1, 1000, plain), "0UNSHARD,0F0,0F1,0B0,0B1,0RESHARD,0REDUCE_GRAD");
  EXPECT_EQ(row(2, {}, plain), "0UNSHARD,0F0,0F1,0B0,0REDUCE_GRAD,0B1,0RESHARD,0REDUCE_GRAD");
  const std::string whole = row(3, {}, plain);
  how.gathers_ahead = false;
  EXPECT_EQ(row(3, {}, plain), whole);  // has no use for it
  how.gathers_ahead = true;
  // What a file lists stays.
  EXPECT_EQ(row(1, 1000, "0F0,0I0,0W0,,0REDUCE_GRAD"),
            "0UNSHARD,0F0,0I0,0W0,0RESHARD,,0REDUCE_GRAD");
  EXPECT_EQ(row(1, {}, "0F0,0UNSHARD,0B0,0RESHARD"), "0F0,0UNSHARD,0B0,0RESHARD");
  how.shard_over = 1;  // nothing is split
  EXPECT_EQ(row(1, {}, plain), plain);
}

TEST(EstimateReplicas, ProgramsGatherForAsLongAsSaid) {
  const auto row = [&](const char* csv, std::optional<Gather> gather) {
    Training how = training(1, 512);
    how.data_parallel = 4;
    how.zero = 3;
    how.gather = gather;
    return csv_row(without_reductions(with_replicas(parse_csv(csv, "p.csv"), how)).actions[0]);
  };
  const char* lone = "0F0,0F1,0B0,0B1\n";
  const char* three = "0F0,1F0,2F0,3F0,3B0,2B0,1B0,0B0\n";
  const std::string by_pass =
      "0UNSHARD,0F0,0RESHARD,0UNSHARD,0F1,0RESHARD,0UNSHARD,0B0,0RESHARD,0UNSHARD,0B1,0RESHARD";
  const std::string at_once = "0UNSHARD,0F0,0F1,0B0,0B1,0RESHARD";
  EXPECT_EQ(row(lone, {}), by_pass);
  EXPECT_EQ(row(lone, Gather::pass), by_pass);
  EXPECT_EQ(row(lone, Gather::once), at_once);
  EXPECT_EQ(row(lone, Gather::window), at_once);
  EXPECT_EQ(row(three, {}), row(three, Gather::window));
  EXPECT_EQ(row(three, Gather::once),
            "0UNSHARD,0F0,1UNSHARD,1F0,2UNSHARD,2F0,3UNSHARD,3F0,3B0,3RESHARD,2B0,2RESHARD,1B0,"
            "1RESHARD,0B0,0RESHARD");
  EXPECT_EQ(row(three, Gather::pass),
            "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1RESHARD,2UNSHARD,2F0,2RESHARD,3UNSHARD,3F0,"
            "3RESHARD,3UNSHARD,3B0,3RESHARD,2UNSHARD,2B0,2RESHARD,1UNSHARD,1B0,1RESHARD,0UNSHARD,"
            "0B0,0RESHARD");
}

// What a file lists is kept, and so must gather what is split.
TEST(EstimateReplicas, ProgramsOfFilesGatherWhatIsSplit) {
  Training how = training(1, 512);
  how.data_parallel = 4;
  how.zero = 3;
  const auto completed = [&](const std::string& csv) {
    return to_csv(with_replicas(parse_csv(csv, "own.csv"), how));
  };
  const std::string gathers = "0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\r\n";
  EXPECT_EQ(completed(gathers), gathers);
  EXPECT_EQ(testing::input_error_of([&] { completed("0F0,0B0,0REDUCE_GRAD\n"); }),
            "own.csv: 0F0 comes where --zero 3 has stage 0 in parts; put 0UNSHARD before it, or "
            "omit all UNSHARD, RESHARD and REDUCE_GRAD");
  EXPECT_EQ(testing::input_error_of([&] { completed("0UNSHARD,0F0,0RESHARD,0B0\n"); }),
            "own.csv: 0B0 comes where --zero 3 has stage 0 in parts; put 0UNSHARD before it, or "
            "omit all UNSHARD, RESHARD and REDUCE_GRAD");
  how.shard_over = 1;  // nothing is split
  EXPECT_EQ(completed("0F0,0B0,0REDUCE_GRAD\n"), "0F0,0B0,0REDUCE_GRAD\r\n");
}

// Hybrid sharding: parts within a node, sums of them across nodes.
TEST(EstimateReplicas, HybridShardsGatherWithinANode) {
  Training how = training(1, 512);
  how.data_parallel = 16;
  how.zero = 3;
  how.shard_over = 8;
  Model model = gpt(4, 1024, 16);
  model.tied_head = false;
  const CostModel costs(model, ideal_cluster(), how);
  const StageCosts stage = costs.costs({Placement::loop(1, 1), false, {}}).stages[0];
  const double n = parameters_of(costs);
  // The all-gather takes the node's links, layer by layer: a time, for which a byte
  // stands.
  EXPECT_EQ(stage.unshard.bytes, 1);
  EXPECT_NEAR(static_cast<double>(stage.unshard.latency_ns),
              1e9 * (6 * 20e-6 + 7.0 / 8 * 2 * n / 200e9), 1);
  // Eighths are summed over two nodes, each through a card of its own.
  EXPECT_NEAR(static_cast<double>(stage.reduce.bytes), 2.0 * 1 / 2 * 2 * n / 8, 2);
  EXPECT_NEAR(static_cast<double>(stage.weight_bytes), 2 * n / 8, 16);
}

// Within a node, as closing work and as actions of the program.
TEST(EstimateReplicas, SplitStatesAreGatheredAtTheGathersRate) {
  Cluster cluster = ideal_cluster();
  cluster.node.collectives.back().gather_bytes_per_second = 150'000'000'000;
  Training how = training(1, 512);
  how.data_parallel = 8;
  Model model = gpt(4, 1024, 16);
  model.tied_head = false;
  const auto costs_with = [&](int zero) {
    how.zero = zero;
    return CostModel(model, cluster, how).costs({Placement::loop(1, 1), false, {}});
  };
  const CostModel whole(model, cluster, how);
  double n = 0;
  for (int layer = 0; layer < model.layers(); ++layer) {
    n += static_cast<double>(whole.layer(layer).parameters);
  }
  const double scatter_ns = 1e9 * (20e-6 + 7.0 / 8 * 2 * n / 150e9);
  EXPECT_NEAR(static_cast<double>(costs_with(0).reduce_gradients_ns[0]),
              1e9 * (40e-6 + 2 * 7.0 / 8 * 2 * n / 200e9), 1);
  EXPECT_NEAR(static_cast<double>(costs_with(1).reduce_gradients_ns[0]), 2 * scatter_ns, 1);

  const Costs parts = costs_with(3);
  ASSERT_EQ(parts.collective_links.size(), 1U);
  EXPECT_EQ(parts.collective_links[0].bytes_per_second, 150'000'000'000);
  for (const CollectiveCosts& one : {parts.stages[0].unshard, parts.stages[0].reduce}) {
    EXPECT_EQ(one.latency_ns, 20'000 * one.parts);
    EXPECT_NEAR(static_cast<double>(one.bytes), 7.0 / 8 * 2 * n, 1);
  }
}

// A pass has two layers that follow each other; else a stage is there whole.
TEST(EstimateReplicas, PassesGatherLayerByLayer) {
  Training how = training(1, 512);
  how.data_parallel = 4;
  how.zero = 3;
  const auto gathered = [&](int chunks, std::optional<Gather> gather) {
    how.gather = gather;
    const CostModel model(gpt(6, 1024, 16), ideal_cluster(), how);
    return model.costs({Placement::loop(1, chunks), false, {}}).stages[0].unsharded_bytes;
  };
  const CostModel model(gpt(6, 1024, 16), ideal_cluster(), how);
  const std::int64_t block = model.layer(1).parameters;
  const std::int64_t table = model.layer(0).parameters;
  const std::int64_t whole = 2 * (table + 3 * block);
  EXPECT_EQ(gathered(1, {}), 2 * (table + block));
  EXPECT_EQ(gathered(2, {}), whole);
  EXPECT_EQ(gathered(2, Gather::once), whole);
  EXPECT_EQ(gathered(2, Gather::pass), 2 * (table + block));
  EXPECT_EQ(gathered(1, Gather::once), gathered(1, Gather::window));
  EXPECT_GT(gathered(1, Gather::once), whole);
}

// Gradients of two layers, and of the largest exchange what three others have of a quarter.
TEST(EstimateReplicas, ReductionsTakeRoomForTwoLayers) {
  Training how = training(1, 512);
  how.data_parallel = 4;
  const auto room = [&](int zero, std::optional<std::int64_t> bucket,
                        std::optional<int> over = {}) {
    how.zero = 0;
    how.bucket_bytes.reset();
    how.shard_over.reset();
    const PipelineShape shape{Placement::loop(2, 1), false, {}};
    const auto workspace = [&] {
      return CostModel(gpt(6, 1024, 16), ideal_cluster(), how)
          .costs(shape)
          .stages[0]
          .workspace_bytes;
    };
    const std::int64_t without = workspace();
    how.zero = zero;
    how.bucket_bytes = bucket;
    how.shard_over = over;
    return workspace() - without;
  };
  const CostModel model(gpt(6, 1024, 16), ideal_cluster(), how);
  const std::int64_t block = model.layer(1).parameters;
  const std::int64_t table = model.layer(0).parameters;
  EXPECT_EQ(room(1, {}), 0);
  EXPECT_EQ(room(2, {}), 2 * (table + block) + 2 * 3 * table / 4);
  EXPECT_EQ(room(3, {}), room(2, {}));
  EXPECT_EQ(room(2, {}, 2), 2 * (table + block) + 2 * table / 2);
  EXPECT_EQ(room(2, {}, 1), 0);
  EXPECT_EQ(room(2, 4000), 2 * (table + block) + 3 * 1000);
}

// What runs beside a backward takes no longer than what follows it, and no less
// than nothing.
TEST(EstimateReplicas, BucketsHideReductionsBehindBackwards) {
  Training how = training(4, 1024);
  how.data_parallel = 16;
  Model model = gpt(8, 2048, 16);
  model.tied_head = false;
  const auto makespan = [&] {
    const CostModel costs(model, ideal_cluster(), how);
    const Schedule schedule =
        with_replicas(generate({.name = "1f1b", .ranks = 2, .microbatches = 4}), how);
    return simulate(schedule, costs.costs({schedule.placement, false, {}})).makespan_ns;
  };
  const std::int64_t after = makespan();
  how.bucket_bytes = 25'000'000;
  const std::int64_t beside = makespan();
  how.bucket_bytes.reset();
  how.data_parallel = 1;
  const std::int64_t alone = makespan();
  EXPECT_LT(beside, after);
  EXPECT_LT(alone, beside);
}

// A lone rank waits for its first layer's weights where the others come faster than it computes,
// and for all of them but for its last layer's forward where they come more slowly.
TEST(EstimateReplicas, ForwardsHideTheGatherOfNewWeights) {
  Training how = training(4, 1024);
  how.data_parallel = 16;
  how.zero = 1;
  Model model = gpt(8, 2048, 16);
  model.tied_head = false;
  Cluster cluster = ideal_cluster();
  const auto costs = [&] {
    return CostModel(model, cluster, how).costs({Placement::loop(1, 1), false, {}});
  };
  const auto makespan = [&](const Costs& given) {
    const Schedule schedule =
        with_replicas(generate({.name = "gpipe", .ranks = 1, .microbatches = 2}), how);
    return simulate(schedule, given).makespan_ns;
  };
  const std::int64_t behind = makespan(costs());
  how.gathers_ahead = true;
  constexpr std::int64_t usual = 25'000'000'000;
  for (const std::int64_t rate : {usual, usual / 100}) {
    SCOPED_TRACE(rate);
    cluster.network.card_bytes_per_second = rate;
    Costs ahead = costs();
    const CollectiveCosts gather = ahead.stages[0].unshard;
    EXPECT_EQ(ahead.stages[0].unsharded_bytes, 0);
    const std::int64_t whole = makespan(ahead);
    if (rate == usual) {
      EXPECT_LT(whole, behind);
    }
    ahead.stages[0].unshard = {};
    const std::int64_t never = makespan(ahead);
    const std::int64_t carrying =
        ahead.collective_links[0].bytes_per_second
            ? gather.bytes * 1'000'000'000 / *ahead.collective_links[0].bytes_per_second
            : 0;
    const std::int64_t all = gather.latency_ns + carrying;
    const std::int64_t forward = ahead.stages[0].forward_ns;
    const std::int64_t waits = all / gather.parts < forward / gather.parts
                                   ? all / gather.parts
                                   : all - forward + forward / gather.parts;
    EXPECT_NEAR(static_cast<double>(whole - never), static_cast<double>(waits), 20);
  }
}

}  // namespace
}  // namespace pipesim
