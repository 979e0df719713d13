// Plans that a search finds, against all that there are.
#include "sim/input_pipeline/predict/choose_sharding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using testing::pick;

RecommendationModel random_model(std::mt19937_64& random) {
  RecommendationModel model;
  model.dense_features = 4;
  model.bottom = {8, 12};
  model.top = {8, 1};
  for (std::int64_t table = pick(random, 1, 3); table > 0; --table) {
    model.tables.push_back({"t", pick(random, 1, 40), 12, pick(random, 1, 9)});
  }
  return model;
}

// Each rank has a time for every number that it holds and a price for each way of dividing.
struct Prices {
  std::vector<std::int64_t> of_rank;
  std::vector<std::int64_t> of_sharding;
  std::int64_t cap = 0;

  PlanValue value(const ShardingPlan& plan, const RecommendationModel& model, int per_node) const {
    const auto ranks = static_cast<int>(of_rank.size());
    std::vector<std::int64_t> bytes(of_rank.size(), 0), times(of_rank.size(), 0);
    for (const TablePiece& piece : pieces_of(plan, model, ranks, per_node)) {
      const auto rank = static_cast<std::size_t>(piece.rank);
      bytes[rank] += piece.numbers() * 4;
      times[rank] += piece.numbers() * of_rank[rank];
    }
    std::int64_t time = *std::ranges::max_element(times);
    for (const TableSharding& table : plan.tables) {
      time += of_sharding[static_cast<std::size_t>(table.sharding)];
    }
    const std::int64_t peak = *std::ranges::max_element(bytes);
    return {std::max<std::int64_t>(peak - cap, 0), time, peak};
  }
};

// Every way of dividing one table.
std::vector<TableSharding> all_ways(const EmbeddingTable& table, int ranks, int per_node) {
  std::vector<TableSharding> ways;
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) {
    ways.push_back({ShardingType::table_wise, {rank}});
    all.push_back(rank);
  }
  if (ranks == 1) return ways;
  if (table.rows >= ranks) ways.push_back({ShardingType::row_wise, {}});
  if (table.width % ranks == 0) ways.push_back({ShardingType::column_wise, all});
  ways.push_back({ShardingType::data_parallel, {}});
  for (int first = 0; first < ranks && per_node < ranks; first += per_node) {
    const int count = std::min(per_node, ranks - first);
    if (table.rows >= count) ways.push_back({ShardingType::table_row_wise, {first}});
    ways.push_back({ShardingType::column_wise,
                    std::vector<int>(all.begin() + first, all.begin() + first + count)});
  }
  return ways;
}

TEST(ChooseSharding, NoChangeOfOneTableIsBetter) {
  std::mt19937_64 random(3);
  int best_of_all = 0;
  constexpr int rounds = 300;
  for (int round = 0; round < rounds; ++round) {
    const RecommendationModel model = random_model(random);
    const auto ranks = static_cast<int>(pick(random, 1, 4));
    const auto per_node = static_cast<int>(pick(random, 1, 4));
    Prices prices{{}, {}, pick(random, 0, 3000)};
    for (int rank = 0; rank < ranks; ++rank) prices.of_rank.push_back(pick(random, 1, 5));
    for (int way = 0; way < 5; ++way) prices.of_sharding.push_back(pick(random, 0, 400));
    int calls = 0;
    const EvaluatePlan evaluate = [&](const ShardingPlan& plan) {
      ++calls;
      return prices.value(plan, model, per_node);
    };
    const PlanChoice choice = choose_sharding(model, ranks, per_node, evaluate);
    EXPECT_EQ(choice.value, prices.value(choice.plan, model, per_node));
    EXPECT_EQ(choice.evaluated, calls);  // none twice
    EXPECT_LE(choice.value, prices.value(default_sharding(model, ranks), model, per_node));
    for (std::size_t table = 0; table < model.tables.size(); ++table) {
      for (const TableSharding& way : all_ways(model.tables[table], ranks, per_node)) {
        ShardingPlan changed = choice.plan;
        changed.tables[table] = way;
        EXPECT_LE(choice.value, prices.value(changed, model, per_node)) << round;
      }
    }
    EXPECT_EQ(choose_sharding(model, ranks, per_node, evaluate).plan, choice.plan);
    // Of all plans together.
    std::optional<PlanValue> least;
    std::vector<std::size_t> at(model.tables.size(), 0);
    for (bool more = true; more;) {
      ShardingPlan plan;
      for (std::size_t table = 0; table < at.size(); ++table) {
        plan.tables.push_back(all_ways(model.tables[table], ranks, per_node)[at[table]]);
      }
      const PlanValue value = prices.value(plan, model, per_node);
      if (!least || value < *least) least = value;
      more = false;
      for (std::size_t table = 0; table < at.size() && !more; ++table) {
        more = ++at[table] < all_ways(model.tables[table], ranks, per_node).size();
        if (!more) at[table] = 0;
      }
    }
    EXPECT_GE(choice.value, *least);
    best_of_all += choice.value == *least ? 1 : 0;
  }
  // A search that looks at one table at a time mostly finds the best of all.
  EXPECT_GT(best_of_all, rounds * 3 / 4);
}

}  // namespace
}  // namespace pipesim
