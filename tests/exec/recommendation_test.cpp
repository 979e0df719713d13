// Ranks that train a recommendation model, against one rank that does what all would.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "exec/input_pipeline/input_reference.h"
#include "exec/input_pipeline/recommendation_rank.h"
#include "tests/errors.h"
#include "tests/input_ranks.h"

namespace pipesim::exec {
namespace {

using pipesim::testing::error_of;
using pipesim::testing::input_error_of;
using pipesim::testing::run_input_ranks;

constexpr int batches = 5;

// Small tables, of which batches ask for the same rows again and again; some samples have no ids.
RecommendationModel small_model(Interaction interaction) {
  RecommendationModel model{.name = "small", .title = "small"};
  model.dense_features = 3;
  model.bottom = {5, 12};
  model.top = {6, 1};
  model.interaction = interaction;
  if (interaction == Interaction::cross) {
    model.cross_layers = 2;
    model.cross_rank = 3;
  }
  model.tables = {{"few", 5, 12, 2, IdCount::fixed, 0.5},
                  {"some", 19, 12, 3, IdCount::uniform, 1},
                  {"many", 90, 12, 1, IdCount::uniform, 0}};
  return model;
}

ShardingPlan plan_of(ShardingType sharding, int ranks) {
  std::vector<int> downwards(static_cast<std::size_t>(ranks));
  std::iota(downwards.rbegin(), downwards.rend(), 0);
  ShardingPlan plan;
  for (int t = 0; t < 3; ++t) {
    TableSharding of{sharding, {}};
    if (sharding == ShardingType::table_wise) of.ranks = {(t + 1) % ranks};
    if (sharding == ShardingType::column_wise) of.ranks = downwards;
    plan.tables.push_back(of);
  }
  return plan;
}

RecommendationTraining training_of(Interaction interaction, int ranks) {
  RecommendationTraining training;
  training.model = small_model(interaction);
  training.plan = plan_of(ShardingType::table_wise, ranks);
  training.ranks = ranks;
  training.batch_size = 6;
  training.seed = 11;
  training.learning_rate = 0.1F;
  training.table_learning_rate = 0.2F;
  return training;
}

// What all do one after the other, with a stale lookup or without.
std::vector<Action> actions_of(int count, int accumulate, bool is_stale) {
  using enum Kind;
  std::vector<Action> actions;
  const auto add = [&](std::initializer_list<Kind> kinds, std::int32_t batch) {
    if (batch >= count) return;
    for (const Kind kind : kinds) actions.push_back(input_action(kind, batch));
  };
  const auto look_up = [&](std::int32_t batch) {
    add({NEXT, COPY, PREPARE, SPLITS, READ, IDS, PREFETCH, LOOKUP, OUTPUT}, batch);
  };
  if (is_stale) look_up(0);
  for (std::int32_t b = 0; b < count; ++b) {
    if (!is_stale) look_up(b);
    if (b % accumulate == 0 && b > 0) add({ZERO_GRAD}, b);
    add({BOTTOM, TOP, TOP_BACKWARD, OUTPUT_BACKWARD}, b);
    if (is_stale) look_up(b + 1);
    add({UPDATE, BOTTOM_BACKWARD}, b);
    if ((b + 1) % accumulate == 0 || b + 1 == count) {
      add({REDUCE_TOP, REDUCE_BOTTOM, DENSE_STEP}, b);
    }
  }
  return actions;
}

void run_all(RecommendationWorkload& workload, const std::vector<Action>& actions,
             InputExchange& exchange) {
  for (const Action& action : actions) {
    workload.run(action, is_meeting(action.kind) ? &exchange : nullptr);
  }
}

std::vector<std::unique_ptr<RecommendationWorkload>> workloads_of(
    const RecommendationTraining& training, const BatchSource& source) {
  std::vector<std::unique_ptr<RecommendationWorkload>> ranks;
  for (int r = 0; r < training.ranks; ++r) {
    ranks.push_back(std::make_unique<RecommendationWorkload>(training, source, r));
  }
  return ranks;
}

// Trains twice, with batches of their own, and holds ranks to the reference.
void expect_reference_bits(const RecommendationTraining& training, bool is_stale) {
  const auto source = make_batch_generator(training.model, training.seed);
  InputReference reference(training);
  const auto ranks = workloads_of(training, *source);
  for (const int first : {0, batches}) {
    const auto wanted = reference.train(*source, first, batches, is_stale);
    run_input_ranks(training.ranks, [&](int rank, InputExchange& exchange) {
      RecommendationWorkload& workload = *ranks[static_cast<std::size_t>(rank)];
      workload.start(first, batches);
      run_all(workload, actions_of(batches, training.accumulate, is_stale), exchange);
    });
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      EXPECT_EQ(reference.first_difference(*ranks[r]), "") << "rank " << r;
      EXPECT_EQ(ranks[r]->batches_under_way(), 0U);
      ASSERT_EQ(ranks[r]->losses().size(), wanted.size());
      for (std::size_t b = 0; b < wanted.size(); ++b) {
        EXPECT_EQ(ranks[r]->losses()[b], wanted[b][r]) << "batch " << b << ", rank " << r;
      }
    }
  }
}

class RecommendationBits : public ::testing::TestWithParam<
                               std::tuple<int, ShardingType, TableOptimizer, int, Interaction>> {};

TEST_P(RecommendationBits, AreThoseOfOneRank) {
  const auto& [ranks, sharding, optimizer, accumulate, interaction] = GetParam();
  RecommendationTraining training = training_of(interaction, ranks);
  training.plan = plan_of(sharding, ranks);
  training.table_optimizer = optimizer;
  training.accumulate = accumulate;
  expect_reference_bits(training, false);
  expect_reference_bits(training, true);
}

INSTANTIATE_TEST_SUITE_P(
    All, RecommendationBits,
    ::testing::Combine(::testing::Values(1, 2, 3, 4),
                       ::testing::Values(ShardingType::table_wise, ShardingType::row_wise,
                                         ShardingType::column_wise, ShardingType::data_parallel),
                       ::testing::Values(TableOptimizer::sgd, TableOptimizer::row_wise_adagrad),
                       ::testing::Values(1, 3),
                       ::testing::Values(Interaction::dot, Interaction::cross)));

TEST(Recommendation, TablesMayBeDividedInDifferentWays) {
  RecommendationTraining training = training_of(Interaction::dot, 4);
  training.table_optimizer = TableOptimizer::row_wise_adagrad;
  training.plan.tables = {{ShardingType::data_parallel, {}},
                          {ShardingType::row_wise, {}},
                          {ShardingType::column_wise, {2, 0}}};
  expect_reference_bits(training, false);
  training.plan.tables = {{ShardingType::column_wise, {3}},
                          {ShardingType::data_parallel, {}},
                          {ShardingType::table_wise, {2}}};
  expect_reference_bits(training, true);
}

// What is summed up where is all that a plan changes.
TEST(Recommendation, PlansAndRanksTrainTheSameModel) {
  const auto trained = [](int ranks, ShardingType sharding) {
    RecommendationTraining training = training_of(Interaction::dot, ranks);
    training.batch_size = 12 / ranks;
    training.plan = plan_of(sharding, ranks);
    InputReference reference(training);
    reference.train(*make_batch_generator(training.model, training.seed), 0, batches, false);
    return reference.table(1);
  };
  const std::vector<float> whole = trained(1, ShardingType::table_wise);
  for (const int ranks : {2, 3, 4}) {
    for (const ShardingType sharding : {ShardingType::table_wise, ShardingType::row_wise,
                                        ShardingType::column_wise, ShardingType::data_parallel}) {
      const std::vector<float> parts = trained(ranks, sharding);
      for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(parts[i], whole[i], 1e-5);
    }
  }
}

TEST(Recommendation, StaleLookupsTrainOtherBits) {
  const RecommendationTraining training = training_of(Interaction::dot, 1);
  const auto source = make_batch_generator(training.model, training.seed);
  InputReference fresh(training), stale(training);
  const auto losses = fresh.train(*source, 0, batches, false);
  const auto stale_losses = stale.train(*source, 0, batches, true);
  EXPECT_EQ(losses[0], stale_losses[0]);
  EXPECT_NE(losses[1], stale_losses[1]);
  EXPECT_NE(fresh.table(0), stale.table(0));
}

// Seven batches with steps behind the third, the sixth and the last; each gradient is scaled by
// 1/3, as in a step of three.
TEST(Recommendation, AStepHasSeveralBatches) {
  RecommendationTraining training = training_of(Interaction::dot, 1);
  training.batch_size = 18;
  training.table_learning_rate = 0;  // tables would step in between
  const auto source = make_batch_generator(training.model, training.seed);
  InputReference whole(training);
  whole.train(*source, 0, 2, false);
  training.batch_size = 6;
  training.accumulate = 3;
  InputReference parts(training);
  parts.train(*source, 0, 6, false);
  for (std::size_t i = 0; i < whole.parameters().top.size(); ++i) {
    ASSERT_NEAR(parts.parameters().top[i], whole.parameters().top[i], 1e-6);
  }
}

TEST(Recommendation, LearnsWhatLabelsFollow) {
  RecommendationTraining training;
  training.model = *find_recommendation_model("dlrm-mini");
  training.ranks = 2;
  training.plan = default_sharding(training.model, training.ranks);
  training.batch_size = 64;
  training.learning_rate = 0.2F;
  training.table_optimizer = TableOptimizer::row_wise_adagrad;
  training.table_learning_rate = 0.05F;
  const auto source = make_batch_generator(training.model, training.seed);
  const auto ranks = workloads_of(training, *source);
  constexpr int count = 100;
  std::vector<double> before(2), after(2);
  run_input_ranks(2, [&](int rank, InputExchange& exchange) {
    const auto r = static_cast<std::size_t>(rank);
    before[r] = ranks[r]->evaluate(*source, count, 10, exchange);
    ranks[r]->start(0, count);
    run_all(*ranks[r], actions_of(count, 1, false), exchange);
    after[r] = ranks[r]->evaluate(*source, count, 10, exchange);
  });
  EXPECT_EQ(before[0], before[1]);
  EXPECT_EQ(after[0], after[1]);
  EXPECT_LT(after[0], 0.9 * before[0]);  // on samples that were not trained on
  const auto mean = [](auto begin) { return std::accumulate(begin, begin + 10, 0.0) / 10; };
  const std::vector<double>& losses = ranks[0]->losses();
  EXPECT_LT(mean(losses.end() - 10), 0.9 * mean(losses.begin()));
}

TEST(Recommendation, EvaluationLeavesTrainingAsItIs) {
  RecommendationTraining training = training_of(Interaction::cross, 2);
  training.table_optimizer = TableOptimizer::row_wise_adagrad;
  const auto source = make_batch_generator(training.model, training.seed);
  const auto others = make_batch_generator(training.model, 99);
  const auto ranks = workloads_of(training, *source);
  InputReference reference(training);
  reference.train(*source, 0, 3, false);
  const auto all = actions_of(3, 1, false);
  run_input_ranks(2, [&](int rank, InputExchange& exchange) {
    RecommendationWorkload& workload = *ranks[static_cast<std::size_t>(rank)];
    workload.start(0, 3);
    // In the middle of a program, too: batches under way are others.
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % 20 == 7) workload.evaluate(*others, 0, 2, exchange);
      run_all(workload, {all[i]}, exchange);
    }
  });
  for (const auto& workload : ranks) EXPECT_EQ(reference.first_difference(*workload), "");
}

// The reference finds a bit that differs, wherever it is.
TEST(Recommendation, ADifferenceIsNamed) {
  const RecommendationTraining training = training_of(Interaction::dot, 1);
  const auto source = make_batch_generator(training.model, training.seed);
  const auto other = make_batch_generator(training.model, training.seed + 1);
  RecommendationWorkload workload(training, *source, 0);
  InputReference reference(training);
  EXPECT_EQ(reference.first_difference(workload), "");
  reference.train(*source, 0, 1, false);
  EXPECT_EQ(reference.first_difference(workload).substr(0, 25), "table 'few': column 0 of ");
  RecommendationTraining still = training;
  still.table_learning_rate = 0;
  InputReference dense(still);
  dense.train(*source, 0, 1, false);
  EXPECT_EQ(dense.first_difference(workload).substr(0, 38),
            "parameter 0 below the interaction is -");
}

TEST(Recommendation, InitialValuesAreThoseOfTheWholeTable) {
  const EmbeddingTable table = {"t", 100, 10};
  std::set<float> seen;
  for (int row = 0; row < 100; ++row) {
    std::vector<float> whole(10), part(4);
    fill_initial_row(3, 1, table, row, 0, 10, whole.data());
    fill_initial_row(3, 1, table, row, 5, 9, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 5));
    for (const float value : whole) {
      EXPECT_GE(value, -0.1F);
      EXPECT_LE(value, 0.1F);
      seen.insert(value);
    }
  }
  EXPECT_GT(seen.size(), 990U);
  std::vector<float> one(10), other(10);
  fill_initial_row(3, 1, table, 7, 0, 10, one.data());
  fill_initial_row(3, 2, table, 7, 0, 10, other.data());
  EXPECT_NE(one, other);
  fill_initial_row(4, 1, table, 7, 0, 10, other.data());
  EXPECT_NE(one, other);
}

// Bytes of batches are of those under way, buffers are given back.
TEST(Recommendation, MemoryIsThatOfBatchesUnderWay) {
  RecommendationTraining training = training_of(Interaction::dot, 1);
  training.table_optimizer = TableOptimizer::row_wise_adagrad;
  const auto source = make_batch_generator(training.model, training.seed);
  RecommendationWorkload workload(training, *source, 0);
  run_input_ranks(1, [&](int, InputExchange& exchange) {
    workload.start(0, 3);
    run_all(workload, actions_of(3, 1, false), exchange);
  });
  std::int64_t largest = 0, sum = 0;
  for (int b = 0; b < 3; ++b) {
    const std::int64_t bytes = read_batch(*source, b, 6, 0, 1).bytes();
    largest = std::max(largest, bytes);
    sum += bytes;
  }
  InputMemory memory = workload.memory();
  EXPECT_EQ(memory.tables, 4 * 12 * (5 + 19 + 90));
  EXPECT_EQ(memory.optimizer, 4 * (5 + 19 + 90));
  EXPECT_EQ(memory.dense,
            2 * 4 * (training.model.bottom_parameters() + training.model.top_parameters()));
  EXPECT_EQ(memory.batches, largest);
  const std::int64_t buffers = memory.buffers;
  EXPECT_GT(buffers, 0);

  run_input_ranks(1, [&](int, InputExchange& exchange) {
    workload.start(0, 3);
    run_all(workload, actions_of(3, 1, false), exchange);
    EXPECT_EQ(workload.memory().buffers, buffers);
    workload.start(0, 3);
    for (std::int32_t b = 0; b < 3; ++b) workload.run(input_action(Kind::NEXT, b), nullptr);
  });
  EXPECT_EQ(workload.memory().batches, sum);
  EXPECT_EQ(workload.batches_under_way(), 3U);
}

TEST(Recommendation, PrefetchCountsDifferentRows) {
  RecommendationTraining training = training_of(Interaction::dot, 2);
  training.plan.tables = {{ShardingType::table_wise, {1}},
                          {ShardingType::row_wise, {}},
                          {ShardingType::data_parallel, {}}};
  const auto source = make_batch_generator(training.model, training.seed);
  const auto ranks = workloads_of(training, *source);
  run_input_ranks(2, [&](int rank, InputExchange& exchange) {
    RecommendationWorkload& workload = *ranks[static_cast<std::size_t>(rank)];
    workload.start(0, 1);
    run_all(workload, actions_of(1, 1, false), exchange);
  });
  std::vector<std::set<std::pair<int, std::int64_t>>> rows(2);  // by rank
  for (int r = 0; r < 2; ++r) {
    const InputBatch batch = read_batch(*source, 0, 6, r, 2);
    for (const std::int64_t id : batch.ids[0].values) rows[1].insert({0, id});
    for (const std::int64_t id : batch.ids[1].values) rows[id < 10 ? 0 : 1].insert({1, id});
    for (const std::int64_t id : batch.ids[2].values) {
      rows[static_cast<std::size_t>(r)].insert({2, id});
    }
  }
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks[r]->prefetched_rows(), std::ssize(rows[r]));
  }
}

TEST(Recommendation, WhatCannotRunIsNamed) {
  RecommendationTraining training = training_of(Interaction::dot, 2);
  const auto source = make_batch_generator(training.model, training.seed);
  RecommendationWorkload workload(training, *source, 1);
  workload.start(0, 2);
  EXPECT_EQ(error_of([&] { workload.run(input_action(Kind::COPY, 1), nullptr); }),
            "rank 1: COPY1 comes before NEXT1 or after the batch's last use");
  workload.run(input_action(Kind::NEXT, 1), nullptr);
  EXPECT_EQ(error_of([&] { workload.run(input_action(Kind::NEXT, 1), nullptr); }),
            "rank 1: batch 1 is taken twice");
  EXPECT_EQ(error_of([&] { workload.start(0, 2); }),
            "rank 1: batch 1 of the program before has not ended");

  training.plan.tables[1] = {ShardingType::table_row_wise, {0}};
  EXPECT_EQ(input_error_of([&] { check_executable(training); }),
            "table 'some': table-row-wise sharding is simulated only; to execute it, take "
            "table-wise, row-wise, column-wise or data-parallel");
}

TEST(Recommendation, ATableWithoutRoomIsNamed) {
  RecommendationTraining training = training_of(Interaction::dot, 2);
  check_training_memory(training, 0, 2);
  training.model.tables[2].rows = std::int64_t{1} << 42;
  const std::string error = input_error_of([&] { check_training_memory(training, 0, 2); });
  EXPECT_EQ(error.substr(0, 68),
            "table 'many' (192.0 TiB): rank 1 has no memory for its part: this ma")
      << error;
  check_training_memory(training, 0, 1);  // which has no part of it

  training = training_of(Interaction::dot, 2);
  training.batch_size = 1'000'000'000;
  EXPECT_TRUE(input_error_of([&] {
                check_training_memory(training, 0, 2);
              }).starts_with("--batch-size 1000000000: a batch takes "));
  training = training_of(Interaction::dot, 2);
  training.model.bottom.insert(training.model.bottom.begin(), {1 << 20, 1 << 20});
  EXPECT_TRUE(input_error_of([&] {
                check_training_memory(training, 0, 2);
              }).starts_with("model 'small': its dense part takes "));
}

// Bytes that are not what ranks agreed on don't pass.
TEST(Recommendation, RanksThatDisagreeAreTold) {
  class Liar final : public InputExchange {
   public:
    int rank() const override { return 0; }
    int ranks() const override { return 1; }
    std::vector<Bytes> all_to_all(std::vector<Bytes> given) override {
      if (++calls == 3) given[0].resize(given[0].size() - 8);
      return given;
    }
    int calls = 0;
  };
  const RecommendationTraining training = training_of(Interaction::dot, 1);
  const auto source = make_batch_generator(training.model, training.seed);
  RecommendationWorkload workload(training, *source, 0);
  workload.start(0, 1);
  Liar liar;
  const std::string error = error_of([&] { run_all(workload, actions_of(1, 1, false), liar); });
  EXPECT_EQ(error.substr(0, 12), "rank 0 sent ");
  EXPECT_EQ(error.substr(error.find(" bytes")),
            " bytes, which are not what was agreed; do all ranks run the same program with the "
            "same flags?");
}

}  // namespace
}  // namespace pipesim::exec
