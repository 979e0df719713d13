// Groups of ranks, against those of Megatron-Core's generator (megatron/core/parallel_state.py).
#include "sim/cost/estimate/rank_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/ideal_cluster.h"

namespace pipesim {
namespace {

using Members = std::vector<std::vector<std::int64_t>>;

Members members(const std::vector<RankGroups>& all, std::string_view key) {
  Members found;
  for (const RankGroup& group : std::ranges::find(all, key, &RankGroups::key)->groups) {
    std::vector<std::int64_t>& own = found.emplace_back();
    for (std::int64_t i = 0; i < group.count; ++i) own.push_back(group[i]);
  }
  return found;
}

// `groups`, and then the same of ranks so many later, over and over.
Members repeated(Members groups, std::int64_t apart, int times) {
  const Members one = groups;
  for (int i = 1; i < times; ++i) {
    for (std::vector<std::int64_t> group : one) {
      for (std::int64_t& rank : group) rank += i * apart;
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

Training spread(int tensor, int context, int data, int expert, std::optional<int> parts) {
  Training training = testing::training(1, 512, tensor);
  training.context_parallel = context;
  training.data_parallel = data;
  training.expert_parallel = expert;
  training.expert_tensor_parallel = parts;
  return training;
}

const Members fours{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}};

TEST(RankGroups, AreMegatronsOf32Ranks) {
  for (const int parts : {1, 2}) {
    const auto all = rank_groups(spread(2, 2, 4, 4, parts), 2, true);
    EXPECT_EQ(members(all, "tensor"), repeated({{0, 1}}, 2, 16));
    EXPECT_EQ(members(all, "context"), repeated({{0, 2}, {1, 3}}, 4, 8));
    EXPECT_EQ(members(all, "data"), repeated(fours, 16, 2));
    EXPECT_EQ(members(all, "gradients"),
              repeated({{0, 2, 4, 6, 8, 10, 12, 14}, {1, 3, 5, 7, 9, 11, 13, 15}}, 16, 2));
    EXPECT_EQ(members(all, "pipeline"), repeated({{0, 16}}, 1, 16));
    if (parts == 1) {
      EXPECT_EQ(members(all, "experts"), repeated({{0, 1, 2, 3}}, 4, 8));
      EXPECT_EQ(members(all, "expert_parts"), repeated({{0}}, 1, 32));
      EXPECT_EQ(members(all, "expert_replicas"), repeated(fours, 16, 2));
    } else {
      EXPECT_EQ(members(all, "experts"), repeated({{0, 2, 4, 6}, {1, 3, 5, 7}}, 8, 4));
      EXPECT_EQ(members(all, "expert_parts"), members(all, "tensor"));
      EXPECT_EQ(members(all, "expert_replicas"), repeated(repeated({{0, 8}}, 1, 8), 16, 2));
    }
  }
}

TEST(RankGroups, OfExpertsFoldOverTensorAndContext) {
  const auto all = rank_groups(spread(2, 2, 4, 8, 1), 1, true);
  EXPECT_EQ(members(all, "experts"), repeated({{0, 1, 2, 3, 4, 5, 6, 7}}, 8, 2));
  EXPECT_EQ(members(all, "expert_replicas"), repeated({{0, 8}}, 1, 8));
}

TEST(RankGroups, OfExpertsStayInAStage) {
  const auto all = rank_groups(spread(1, 1, 4, 4, {}), 2, true);
  EXPECT_EQ(members(all, "experts"), (Members{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(members(all, "data"), members(all, "experts"));
  EXPECT_EQ(members(all, "expert_replicas"), repeated({{0}}, 1, 8));
  EXPECT_EQ(rank_groups(spread(1, 1, 4, 1, {}), 2, false).size(), 5U);
}

// Whatever the sizes: each kind of group has every rank once, and those that hold the same experts
// have the coordinates of the same block and part.
TEST(RankGroups, HaveEveryRankOnce) {
  for (const auto& [tensor, context, data, expert, parts, pipeline] : {std::array{1, 1, 1, 1, 1, 1},
                                                                       {4, 2, 6, 8, 2, 3},
                                                                       {8, 1, 4, 32, 1, 2},
                                                                       {2, 4, 2, 4, 4, 5},
                                                                       {4, 1, 3, 3, 2, 1}}) {
    const Training training = spread(tensor, context, data, expert, parts);
    const Mesh experts = training.expert_mesh(pipeline);
    for (const RankGroups& kind : rank_groups(training, pipeline, true)) {
      std::set<std::int64_t> seen;
      for (const RankGroup& group : kind.groups) {
        EXPECT_EQ(group.count, kind.groups.front().count) << kind.key;
        for (std::int64_t i = 0; i < group.count; ++i) {
          EXPECT_TRUE(seen.insert(group[i]).second) << kind.key;
          if (kind.key != "expert_replicas") continue;
          Coordinates at = experts.coordinates_of(group[i]);
          EXPECT_EQ(at.data, i);
          at.data = 0;
          EXPECT_EQ(at, experts.coordinates_of(group.first));
        }
      }
      EXPECT_EQ(std::ssize(seen), experts.ranks()) << kind.key;
      EXPECT_EQ(*seen.rbegin(), experts.ranks() - 1) << kind.key;
    }
  }
}

}  // namespace
}  // namespace pipesim
