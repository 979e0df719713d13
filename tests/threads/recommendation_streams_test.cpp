// Every program by name trains a recommendation model, with its streams as threads: the bits are
// those of one rank, whatever overlaps.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "exec/input_pipeline/input_reference.h"
#include "exec/input_pipeline/input_worker.h"
#include "exec/input_pipeline/recommendation_rank.h"
#include "exec/run/ranks.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/input_pipeline/recommendation_model.h"

namespace pipesim::exec {
namespace {

// A table for each way of dividing it.
RecommendationTraining mixed_training(int ranks, int accumulate) {
  RecommendationTraining training;
  training.model = {.name = "mixed", .title = "mixed"};
  training.model.dense_features = 4;
  training.model.bottom = {8, 6};
  training.model.top = {8, 1};
  training.model.interaction = Interaction::cross;
  training.model.cross_layers = 1;
  training.model.cross_rank = 4;
  training.model.tables = {{"whole", 30, 6, 2, IdCount::uniform, 1},
                           {"rows", 50, 6, 4, IdCount::fixed, 0.5},
                           {"columns", 20, 6, 1, IdCount::fixed, 0},
                           {"copies", 10, 6, 3, IdCount::uniform, 0.8}};
  std::vector<int> all;
  for (int rank = ranks; rank-- > 0;) all.push_back(rank);
  training.plan.tables = {{ShardingType::table_wise, {ranks - 1}},
                          {ShardingType::row_wise, {}},
                          {ShardingType::column_wise, all},
                          {ShardingType::data_parallel, {}}};
  training.ranks = ranks;
  training.batch_size = 8;
  training.accumulate = accumulate;
  training.seed = 5;
  training.table_optimizer = TableOptimizer::row_wise_adagrad;
  return training;
}

class RecommendationStreams : public ::testing::TestWithParam<std::tuple<std::string, int, int>> {};

TEST_P(RecommendationStreams, TrainTheBitsOfOneRank) {
  const auto& [name, ranks, accumulate] = GetParam();
  constexpr int batches = 7;
  const RecommendationTraining training = mixed_training(ranks, accumulate);
  const InputProgram program = make_input_program(
      {.name = name, .ranks = ranks, .batches = batches, .accumulate = accumulate});
  ASSERT_FALSE(find_fault(program));
  const auto source = make_batch_generator(training.model, training.seed);
  InputReference reference(training);
  std::vector<std::unique_ptr<RecommendationWorkload>> workloads;
  for (int r = 0; r < ranks; ++r) {
    workloads.push_back(std::make_unique<RecommendationWorkload>(training, *source, r));
  }
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto wanted = reference.train(*source, epoch * batches, batches, program.is_stale);
    run_as_threads(
        ranks, std::nullopt,
        [&](Transport& transport) {
          RecommendationWorkload& workload = *workloads[static_cast<std::size_t>(transport.rank())];
          workload.start(epoch * batches, batches);
          InputWorker(program, transport, workload).run();
        },
        Processors::shared);
    for (std::size_t r = 0; r < workloads.size(); ++r) {
      EXPECT_EQ(reference.first_difference(*workloads[r]), "") << "epoch " << epoch;
      EXPECT_EQ(workloads[r]->batches_under_way(), 0U);
      for (std::size_t b = 0; b < batches; ++b) {
        EXPECT_EQ(workloads[r]->losses()[b], wanted[b][r]) << "batch " << b;
      }
    }
  }
}

std::vector<std::string> names_of_programs() {
  std::vector<std::string> names;
  for (const InputFamily& family : all_input_families()) names.emplace_back(family.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Programs, RecommendationStreams,
                         ::testing::Combine(::testing::ValuesIn(names_of_programs()),
                                            ::testing::Values(1, 2, 3), ::testing::Values(1, 3)));

}  // namespace
}  // namespace pipesim::exec
