// What a layout says, against what is reckoned here by other means.
#include "sim/cost/describe_layout.h"

#include <gtest/gtest.h>

#include <tuple>

#include "sim/cost/estimate/cost_model.h"
#include "sim/cost/estimate/replicas.h"
#include "sim/schedule/family.h"
#include "tests/ideal_cluster.h"

namespace pipesim {
namespace {

Schedule schedule_of(const std::string& name, const Placement& placement, int microbatches) {
  ScheduleRequest request;
  request.name = name;
  request.ranks = placement.ranks();
  request.microbatches = microbatches;
  request.chunks = placement.chunks();
  if (!placement.is_loop()) {
    std::string list;
    for (const int rank : placement.rank_of_stage()) {
      list += (list.empty() ? "" : ",") + std::to_string(rank);
    }
    request.placement = list;
  }
  return generate(request);
}

Costs stages_alike(int stages, std::int64_t output_bytes) {
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(stages), usual_stage_costs());
  for (StageCosts& stage : costs.stages) stage.output_bytes = output_bytes;
  return costs;
}

TEST(DescribeLayout, SendsFromEachRankToTheNextAndAround) {
  const Schedule schedule = schedule_of("interleaved", Placement::loop(4, 2), 8);
  const Costs costs = stages_alike(8, 100);
  const PipelineLayout layout = describe_layout({"Interleaved", schedule, costs});
  ASSERT_EQ(layout.stages.size(), 8U);
  for (int s = 0; s < 8; ++s) EXPECT_EQ(layout.stages[static_cast<std::size_t>(s)].rank, s % 4);
  ASSERT_EQ(layout.messages.size(), 7U);
  for (int s = 0; s < 7; ++s) {
    EXPECT_EQ(layout.messages[static_cast<std::size_t>(s)],
              (StageMessage{s, s % 4, (s + 1) % 4, 100}));
  }
  EXPECT_EQ(layout.microbatches, 8);
  EXPECT_EQ(layout.sizes.pipeline, 4);
  EXPECT_EQ(layout.tied, std::nullopt);
  EXPECT_TRUE(layout.replicas.empty());
  EXPECT_EQ(layout.stages[0].layers, std::nullopt);
  EXPECT_EQ(layout.stages[0].parameters, std::nullopt);
}

TEST(DescribeLayout, SendsNothingBetweenStagesOfOneRank) {
  const Schedule schedule = schedule_of("bfs", Placement::v(3, 2), 6);
  Costs costs = stages_alike(6, 7);
  costs.tied_gradients = GroupCosts{0, 50, {}, {}};
  const PipelineLayout layout = describe_layout({"v", schedule, costs});
  const std::vector<StageMessage> expected{{0, 0, 1, 7}, {1, 1, 2, 7}, {3, 2, 1, 7}, {4, 1, 0, 7}};
  EXPECT_EQ(layout.messages, expected);
  // The first and the last stage are on one rank.
  EXPECT_EQ(layout.tied, std::nullopt);
}

TEST(DescribeLayout, OneRankSendsNothing) {
  const Schedule schedule = schedule_of("1f1b", Placement::loop(1, 1), 2);
  const Costs costs = stages_alike(1, 7);
  const PipelineLayout layout = describe_layout({"1F1B", schedule, costs});
  EXPECT_EQ(layout.stages.size(), 1U);
  EXPECT_TRUE(layout.messages.empty());
}

TEST(DescribeLayout, NamesLayers) {
  const Model model = testing::gpt(4, 64, 4);
  EXPECT_EQ(layer_names(model, 0, 1), "embedding");
  EXPECT_EQ(layer_names(model, 0, 2), "embedding, block 0");
  EXPECT_EQ(layer_names(model, 0, 6), "embedding, blocks 0-3, head");
  EXPECT_EQ(layer_names(model, 2, 2), "blocks 1-2");
  EXPECT_EQ(layer_names(model, 4, 2), "block 3, head");
  EXPECT_EQ(layer_names(model, 5, 1), "head");
  Model listed;
  listed.architecture = Architecture::layers;
  listed.list = {{"conv"}, {"relu"}, {"fc"}};
  EXPECT_EQ(layer_names(listed, 1, 1), "layer 1: relu");
  EXPECT_EQ(layer_names(listed, 0, 3), "layers 0-2: conv - fc");

  const Schedule schedule = schedule_of("1f1b", Placement::loop(2, 1), 2);
  const Costs costs = stages_alike(2, 7);
  const PipelineLayout layout = describe_layout({"1F1B", schedule, costs, {3, 1}});
  EXPECT_EQ(layout.stages[0].layer_names, "layers 0-2");
  EXPECT_EQ(layout.stages[1].layer_names, "layer 3");
  EXPECT_EQ(layout.stages[1].first_layer, 3);
  EXPECT_TRUE(layout.model.empty());
}

// A model on a cluster, by default a GPT, with what belongs to its layout.
struct Trained {
  CostModel model;
  Schedule schedule;
  PipelineShape shape;
  Costs costs;

  Trained(Training training, int ranks, int microbatches,
          const Model& of = testing::gpt(8, 1024, 16))
      : model(of, testing::ideal_cluster(), training),
        schedule(
            with_replicas(schedule_of("1f1b", Placement::loop(ranks, 1), microbatches), training)),
        shape{schedule.placement, false, {}},
        costs(model.costs(shape)) {}

  PipelineLayout layout() const {
    LayoutFacts facts{"1F1B", schedule, costs};
    facts.layers = model.layout(shape);
    facts.model = &model.model();
    facts.parameters = model.parameters(shape);
    if (model.model().has_experts()) facts.expert_parameters = model.expert_parameters(shape);
    facts.training = &model.training();
    return describe_layout(facts);
  }
};

Training replicas(int data, int zero, int tensor = 1) {
  Training training = testing::training(1, 512, tensor);
  training.pipeline_parallel = 2;
  training.data_parallel = data;
  training.zero = zero;
  return training;
}

TEST(DescribeLayout, HasTheModelsParametersAndTies) {
  const Trained trained(replicas(1, 0), 2, 4);
  const PipelineLayout layout = trained.layout();
  const Model& model = trained.model.model();
  // Two ends that both hold the tied matrix, which the model counts once.
  EXPECT_EQ(*layout.stages[0].parameters + *layout.stages[1].parameters,
            model.parameters() + model.vocabulary_size * model.hidden_size);
  const std::int64_t block = model.layer_parameters(1);
  EXPECT_EQ(*layout.stages[0].parameters, model.layer_parameters(0) + 4 * block);
  EXPECT_EQ(layout.stages[0].weight_bytes, 2 * *layout.stages[0].parameters);
  const std::int64_t table = 2 * model.vocabulary_size * model.hidden_size;
  EXPECT_EQ(layout.tied, (TiedExchange{0, 1, table}));
  EXPECT_EQ(layout.messages, (std::vector<StageMessage>{{0, 0, 1, 2 * 512 * 1024}}));
}

// Groups as Megatron numbers them: tensor fastest, then data, then pipeline.
TEST(DescribeLayout, ReplicasReduceInMegatronsOrder) {
  const Trained trained(replicas(4, 0, 2), 2, 4);
  const PipelineLayout layout = trained.layout();
  EXPECT_EQ(layout.sizes, (MeshSizes{.tensor = 2, .data = 4, .pipeline = 2}));
  ASSERT_EQ(layout.replicas.size(), 1U);
  const ReplicaExchange& reduction = layout.replicas[0];
  EXPECT_EQ(reduction.how, "all-reduce");
  std::vector<std::int64_t> devices;
  for (std::int64_t i = 0; i < reduction.group.count; ++i) devices.push_back(reduction.group[i]);
  EXPECT_EQ(devices, (std::vector<std::int64_t>{0, 2, 4, 6}));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::int64_t gradients = 2 * *layout.stages[rank].parameters;
    EXPECT_NEAR(static_cast<double>(reduction.bytes[rank]),
                2.0 * 3 / 4 * static_cast<double>(gradients), 2);
  }
}

TEST(DescribeLayout, ShardsAreReducedAndGathered) {
  Training training = replicas(8, 3);
  training.shard_over = 4;
  const Trained trained(training, 2, 3);
  const PipelineLayout layout = trained.layout();
  ASSERT_EQ(layout.replicas.size(), 3U);
  const auto& [scatter, sum, gather] =
      std::tie(layout.replicas[0], layout.replicas[1], layout.replicas[2]);
  EXPECT_EQ(scatter.how, "reduce-scatter");
  EXPECT_EQ(scatter.group, (RankGroup{0, 1, 4}));
  EXPECT_EQ(sum.how, "all-reduce");
  EXPECT_EQ(sum.group, (RankGroup{0, 4, 2}));
  EXPECT_EQ(gather.what, "weights");
  EXPECT_EQ(gather.group, (RankGroup{0, 1, 4}));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto whole = 2.0 * static_cast<double>(*layout.stages[rank].parameters);
    // ZeRO 3 reduces behind each of three backwards, and gathers what stays, once.
    EXPECT_NEAR(static_cast<double>(scatter.bytes[rank]), 3 * whole * 3 / 4, 6);
    EXPECT_NEAR(static_cast<double>(sum.bytes[rank]), 3 * whole / 4, 6);
    EXPECT_NEAR(static_cast<double>(gather.bytes[rank]), whole * 3 / 4, 6);
    EXPECT_NEAR(static_cast<double>(layout.stages[rank].weight_bytes), whole / 4, 8);
  }
}

TEST(DescribeLayout, ZeroOneGathersWeightsOnce) {
  const Trained trained(replicas(2, 1), 2, 5);
  const PipelineLayout layout = trained.layout();
  ASSERT_EQ(layout.replicas.size(), 2U);
  EXPECT_EQ(layout.replicas[0].how, "reduce-scatter");
  EXPECT_EQ(layout.replicas[1].how, "all-gather");
  EXPECT_EQ(layout.replicas[0].bytes, layout.replicas[1].bytes);
}

// Over the ranks that hold the same experts, which are fewer than hold the same of all else.
TEST(DescribeLayout, ExpertsReduceOverTheirOwnReplicas) {
  Model model = testing::llama(16);
  model.experts = 8;
  model.experts_per_token = 2;
  model.expert_size = 2816;
  model.kinds = {BlockKind{.has_experts = true}};
  Training training = replicas(4, 1, 2);
  training.context_parallel = 2;
  training.attention = Attention::fused;
  training.sequence_parallel = true;
  training.expert_parallel = 4;
  training.expert_tensor_parallel = 1;
  const PipelineLayout layout = Trained(training, 2, 4, model).layout();
  EXPECT_EQ(layout.sizes, (MeshSizes{.tensor = 2, .context = 2, .data = 4, .pipeline = 2}));
  EXPECT_EQ(layout.experts, 8);
  EXPECT_EQ(layout.expert_sizes, (MeshSizes{.expert = 4, .data = 4, .pipeline = 2}));
  ASSERT_EQ(layout.replicas.size(), 4U);
  const std::int64_t experts = 2 * 2 * 3 * 1024 * 2816;  // of two blocks, two each
  for (std::size_t i = 0; i < 4; ++i) {
    const ReplicaExchange& one = layout.replicas[i];
    EXPECT_EQ(one.what, i % 2 == 0 ? "gradients" : "weights");
    EXPECT_EQ(one.how, i % 2 == 0 ? "reduce-scatter" : "all-gather");
    EXPECT_EQ(one.of, i < 2 ? "all but experts" : "experts");
    EXPECT_EQ(one.group, i < 2 ? (RankGroup{0, 2, 8}) : (RankGroup{0, 4, 4}));
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::int64_t others = *layout.stages[rank].parameters - experts;
      const std::int64_t bytes = i < 2 ? 2 * others * 7 / 8 : 2 * experts * 3 / 4;
      EXPECT_NEAR(static_cast<double>(one.bytes[rank]), static_cast<double>(bytes), 1);
    }
  }
  // Whole experts, as many replicas as of all else: one exchange.
  training.expert_parallel = 2;
  const PipelineLayout alike = Trained(training, 2, 4, model).layout();
  ASSERT_EQ(alike.replicas.size(), 2U);
  EXPECT_EQ(alike.replicas[0].of, "");
}

// Costs of a file say what is exchanged, but not with how many.
TEST(DescribeLayout, TakesExchangesOfCosts) {
  const Schedule schedule = schedule_of("1f1b", Placement::loop(2, 1), 2);
  Costs costs = stages_alike(2, 7);
  costs.stages[1].reduce = {0, 300, 1};
  const PipelineLayout layout = describe_layout({"1F1B", schedule, costs});
  ASSERT_EQ(layout.replicas.size(), 1U);
  EXPECT_EQ(layout.replicas[0].group.count, 1);
  EXPECT_EQ(layout.replicas[0].bytes, (std::vector<std::int64_t>{0, 300}));
}

}  // namespace
}  // namespace pipesim
