// Blocks with experts, latent attention, windows, and sequences in parts: counted by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "sim/cost/estimate/collective_times.h"
#include "sim/cost/estimate/cost_model.h"
#include "sim/cost/estimate/operators.h"
#include "sim/cost/model_flops.h"
#include "tests/ideal_cluster.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

using testing::ideal_cluster;

// Three blocks, the first of them dense.
Model tiny() {
  Model model = testing::llama(2);
  model.name = "tiny";
  model.blocks = 3;
  model.hidden_size = 16;
  model.heads = 4;
  model.mlp_size = 32;
  model.experts = 4;
  model.experts_per_token = 2;
  model.expert_size = 8;
  model.shared_size = 8;
  model.vocabulary_size = 32;
  model.max_sequence_length = 64;
  model.kinds = {{.has_experts = false}, {.has_experts = true}, {.has_experts = true}};
  return model;
}

// DeepSeek-V3's sizes.
Model large() {
  Model model = testing::llama(128);
  model.name = "large";
  model.blocks = 61;
  model.hidden_size = 7168;
  model.heads = 128;
  model.latent = LatentAttention{1536, 512, 128, 64, 128};
  model.mlp_size = 18432;
  model.experts = 256;
  model.experts_per_token = 8;
  model.expert_size = 2048;
  model.shared_size = 2048;
  model.expert_groups = 8;
  model.groups_per_token = 4;
  model.vocabulary_size = 129280;
  model.max_sequence_length = 131072;
  model.kinds.assign(61, {.has_experts = true});
  for (const std::size_t dense : {0U, 1U, 2U}) model.kinds[dense].has_experts = false;
  return model;
}

Training fused(std::int64_t sequence) {
  Training training = testing::training(1, sequence);
  training.attention = Attention::fused;
  return training;
}

// What the layer keeps from the operator of this name on.
double kept_from(const Model& model, int layer, const Training& training, std::string_view name,
                 const SoftwareSpec& software = {}) {
  double sum = 0;
  bool is_there = false;
  for (const Operator& one : layer_operators(model, layer, training, software)) {
    is_there = is_there || one.name == name;
    if (!is_there) continue;
    const bool is_again = training.recompute.includes(one.module) && !one.is_entrance;
    sum += one.saved_bytes;
    if (is_again) {
      sum -= one.saved_bytes;
    } else if (training.recompute.includes(one.part)) {
      sum -= one.remade_bytes;
    }
  }
  return sum;
}

const Operator& find(const std::vector<Operator>& all, std::string_view name, Pass pass) {
  const auto found = std::ranges::find_if(
      all, [&](const Operator& one) { return one.name == name && one.pass == pass; });
  EXPECT_NE(found, all.end()) << name;
  return *found;
}

TEST(Experts, ParametersAndFlops) {
  const Model model = tiny();
  const std::int64_t norms = 32;
  EXPECT_EQ(model.layer_parameters(1), 768 + 1536 + norms);
  EXPECT_EQ(model.layer_parameters(2), 768 + 1984 + norms);
  EXPECT_EQ(model.parameters(), 8944);
  EXPECT_EQ(model.active_parameters(), 7408);
  EXPECT_EQ(model.blocks_with_experts(), 2);
  double weights = 0;
  double core = 0;
  double counted = 0;
  for (int layer = 0; layer < model.layers(); ++layer) {
    for (const Operator& one : layer_operators(model, layer, fused(8))) {
      if (one.pass != Pass::forward) continue;
      (one.of == OperatorClass::attention ? core : weights) += one.flops;
    }
    counted += layer_flops(model, layer, 8);
  }
  EXPECT_DOUBLE_EQ(weights, 8 * 13568);
  EXPECT_DOUBLE_EQ(core, 6144);
  // As published utilisations are: both halves of the scores.
  EXPECT_DOUBLE_EQ(counted, 8 * 13568 + 2 * 6144);
}

TEST(Experts, LatentAttention) {
  Model model = tiny();
  model.heads = 2;
  model.latent = LatentAttention{8, 4, 4, 2, 4};
  model.kinds = {BlockKind{}};
  EXPECT_EQ(model.layer_parameters(1), 524 + 1536 + 32);
  model.kinds = {BlockKind{.window = 8}};  // as long as the sequence: all pairs, the half of them
  const auto all = layer_operators(model, 1, fused(8));
  EXPECT_DOUBLE_EQ(find(all, "fused attention", Pass::forward).flops, 32 * 2 * 2 * 10);
  EXPECT_EQ(large().layer_parameters(1) - 3 * 7168 * 18432 - 2 * 7168, 187'107'328);
  Model with = large();
  with.prediction_depths = 1;
  EXPECT_EQ(with.prediction_parameters(), 11'610'067'968);
  EXPECT_EQ(with.parameters(), 671'026'404'352);
  EXPECT_EQ(with.active_parameters(), 37'552'282'624);
}

TEST(Experts, PairsOfWindowsAndChunks) {
  EXPECT_EQ((BlockKind{.window = 4}.pairs(16)), 58);
  EXPECT_EQ((BlockKind{.window = 8}.pairs(4)), 10);
  EXPECT_EQ((BlockKind{.chunk = 4}.pairs(16)), 40);
  EXPECT_EQ((BlockKind{.chunk = 4}.pairs(18)), 43);
  EXPECT_EQ((BlockKind{.window = 128}.pairs(4096)), 516'160);
  // Zigzag chunks of 4 ranks: 11, 15, 16 and 16 of 58.
  EXPECT_EQ(most_pairs_of_rank({.window = 4}, 16, 4), 16);
  EXPECT_EQ(most_pairs_of_rank({}, 16, 4), 34);
  // A short window costs what it sees, at any length.
  Model model = tiny();
  model.kinds = {BlockKind{.window = 16}};
  const auto flops = [&](std::int64_t length) {
    return find(layer_operators(model, 1, fused(length)), "fused attention", Pass::forward).flops;
  };
  EXPECT_DOUBLE_EQ(flops(64), 2 * BlockKind{.window = 16}.pairs(64) * 4 * 8);
  EXPECT_LT(flops(64), 2 * flops(32) + 1e4);
}

TEST(Experts, KeptActivations) {
  Training training = fused(8);
  const auto kept = [&] { return kept_from(tiny(), 2, training, "router"); };
  EXPECT_EQ(kept(), 2272);
  training.recompute.activation = true;
  EXPECT_EQ(kept(), 2016);
  training.recompute = {.shared = true};
  EXPECT_EQ(kept(), 1888);
  training.recompute = {.experts = true};
  EXPECT_EQ(kept(), 256);  // what the router reads
  training.recompute = {};
  SoftwareSpec after;
  after.weighs_outputs = true;
  EXPECT_EQ(kept_from(tiny(), 2, training, "router", after), 2784);

  training = fused(4096);
  const auto of_large = [&] { return kept_from(large(), 4, training, "router"); };
  EXPECT_EQ(of_large(), 991'035'392);
  training.recompute.activation = true;
  EXPECT_EQ(of_large(), 856'817'664);
  training.recompute = {};
  training.precision = Precision::fp8;
  EXPECT_EQ(of_large(), 690'356'224);
}

TEST(Experts, KeptActivationsOfLatentAttention) {
  Training training = fused(4096);
  const auto kept = [&] {
    return kept_from(large(), 1, training, "query latent") -
           kept_from(large(), 1, training, "attention added");
  };
  // Norm's output, latents twice and the rotary key, queries, keys, values, result, sums of rows.
  const std::int64_t norm = 2 * 4096 * 7168;
  const std::int64_t latents = 2 * 4096 * (2 * (1536 + 512) + 64);
  const std::int64_t made = 2 * 4096 * 128 * (192 + 192 + 128);
  const std::int64_t result = 2 * 4096 * 128 * 128 + 4 * 4096 * 128;
  EXPECT_EQ(kept(), norm + latents + made + result);
  training.recompute.latent = true;
  EXPECT_EQ(kept(), norm + latents + result);
}

TEST(Experts, ExchangesSendWhatLeavesTheRank) {
  Model model = tiny();
  Training training = fused(8);
  training.data_parallel = 2;
  training.expert_parallel = 2;
  const auto all = layer_operators(model, 2, training);
  // Copies of 32 bytes, and a weight with each.
  EXPECT_EQ(find(all, "dispatch", Pass::forward).bytes, 8 * 2 * 32 + 8 * 2 * 4);
  EXPECT_EQ(find(all, "combine", Pass::forward).bytes, 8 * 2 * 32);
  EXPECT_EQ(find(all, "gradients of combine", Pass::backward_input).bytes, 8 * 2 * 36);
  EXPECT_EQ(find(all, "gradients of dispatch", Pass::backward_input).bytes, 8 * 2 * 32);
  EXPECT_EQ(exchange(ideal_cluster(), {{0, 1, 2}}, CollectiveKind::all_to_all, 8 * 2 * 32).bytes,
            256);
  // Over 8 nodes of 8, a layer and microbatch of DeepSeek-V3.
  const double copies = 4096.0 * 8 * 7168 * 2;
  const Group group{{0, 1, 64}};
  const Exchange each = exchange(ideal_cluster(), group, CollectiveKind::all_to_all, copies);
  EXPECT_TRUE(each.leaves_node);
  EXPECT_EQ(4 * each.bytes, 1'644'167'168);
  EXPECT_EQ(4 * deduplicated_exchange(ideal_cluster(), group, large(), copies).bytes, 822'083'584);
  EXPECT_DOUBLE_EQ(distinct_groups(8, 2, 4), 13. / 7);
  EXPECT_DOUBLE_EQ(distinct_groups(8, 2, 8), 2);
  EXPECT_DOUBLE_EQ(distinct_groups(8, 2, 2), 11. / 7);
}

TEST(Experts, RanksHoldBlocksOfExperts) {
  Training training = fused(64);
  training.tensor_parallel = 2;
  training.sequence_parallel = true;
  training.data_parallel = 2;
  for (const auto& [ranks, parts] : {std::pair(1, 2), std::pair(2, 1), std::pair(4, 1)}) {
    training.expert_parallel = ranks;
    training.expert_tensor_parallel = parts;
    const CostModel model(tiny(), ideal_cluster(), training);
    EXPECT_EQ(model.layer(2).expert_parameters, 4 * 384 / ranks / parts);
    // Half of attention and of shared experts; whole router and norms.
    EXPECT_EQ(model.layer(2).parameters - model.layer(2).expert_parameters,
              (768 + 384) / 2 + 64 + 32);
  }
}

// Their states are shared out among their own replicas.
TEST(Experts, StatesByGroup) {
  Training training = fused(64);
  training.data_parallel = 8;
  training.expert_parallel = 2;
  training.zero = 1;
  training.gradient_bytes = 4;
  const LayerEstimate& layer = CostModel(tiny(), ideal_cluster(), training).layer(2);
  const std::int64_t experts = 4 * 384 / 2;
  const std::int64_t dense = layer.parameters - experts;
  EXPECT_EQ(layer.expert_parameters, experts);
  EXPECT_EQ(layer.costs.weight_bytes + layer.costs.gradient_bytes, 6 * layer.parameters);
  EXPECT_EQ(layer.costs.optimizer_bytes, 12 * dense / 8 + 12 * experts / 4);
  training.context_parallel = 4;
  training.data_parallel = 2;
  training.expert_parallel = 4;
  const StageCosts costs = CostModel(tiny(), ideal_cluster(), training).layer(2).costs;
  EXPECT_EQ(costs.optimizer_bytes, 12 * dense / 8 + 12 * (experts / 2) / 2);
}

TEST(Experts, SequencesInParts) {
  Model model = tiny();
  model.heads = 1;
  model.kv_heads = 1;
  model.own_head_size = 8;
  model.kinds = {BlockKind{}};
  Training training = fused(16);
  training.context_parallel = 4;
  const auto sent = [&](Pass pass) {
    double bytes = 0;
    for (const Operator& one : layer_operators(model, 1, training)) {
      if (one.across != Across::context || one.pass != pass) continue;
      bytes += exchange(ideal_cluster(), {{0, 1, 4}}, *one.collective, one.bytes).bytes;
    }
    return bytes;
  };
  for (const ContextExchange type : {ContextExchange::ring, ContextExchange::gather}) {
    training.context_exchange = type;
    EXPECT_EQ(sent(Pass::forward), 384);
    EXPECT_EQ(sent(Pass::backward_input), 768);
  }
  model.heads = 4;
  model.kv_heads = 4;
  training.context_exchange = ContextExchange::all_to_all;
  EXPECT_EQ(sent(Pass::forward), 768);
  EXPECT_EQ(sent(Pass::backward_input), 768);
  // Everything else is a quarter.
  training.context_exchange = ContextExchange::gather;
  const CostModel parts(model, ideal_cluster(), training);
  training.context_parallel = 1;
  const CostModel whole(model, ideal_cluster(), training);
  EXPECT_EQ(4 * parts.layer(1).costs.activation_bytes, whole.layer(1).costs.activation_bytes);
  EXPECT_EQ(4 * parts.layer(1).costs.output_bytes, whole.layer(1).costs.output_bytes);
  EXPECT_EQ(parts.layer(1).parameters, whole.layer(1).parameters);
  EXPECT_EQ(parts.tokens(2), whole.tokens(2));
  EXPECT_DOUBLE_EQ(parts.model_flops(2), whole.model_flops(2));
}

// A ring's steps run behind attention to what came before: as long as they are shorter.
TEST(Experts, RingsHideBehindAttention) {
  Model model = testing::llama(16);
  Training training = fused(8192);
  training.context_parallel = 8;
  const auto exposed = [&](std::int64_t length) {
    training.sequence_length = length;
    const LayerEstimate layer = CostModel(model, ideal_cluster(), training).layer(1);
    const auto ring = layer.forward[static_cast<std::size_t>(OperatorClass::context_parallel)];
    const auto core = layer.forward[static_cast<std::size_t>(OperatorClass::attention)];
    EXPECT_NEAR(layer.hidden_forward_seconds, std::min(ring, core * 7 / 8), 1e-12);
    return ring - layer.hidden_forward_seconds;
  };
  EXPECT_GT(exposed(512), 0);
  EXPECT_NEAR(exposed(1 << 20), 0, 1e-12);
}

TEST(Experts, LoadsOfRanks) {
  EXPECT_EQ(parse_expert_load("balanced").imbalance(256, 8), 1);
  EXPECT_EQ(parse_expert_load("1.3").imbalance(256, 8), 1.3);
  EXPECT_EQ(parse_expert_load("9").imbalance(256, 8), 8);
  EXPECT_EQ(parse_expert_load("1.3").imbalance(256, 1), 1);
  const ExpertLoad zipf = parse_expert_load("zipf:1");
  EXPECT_GT(zipf.imbalance(64, 8), 1.2);
  EXPECT_LE(zipf.imbalance(64, 8), zipf.imbalance(64, 64));
  // The most popular of 4 experts has 12 of 25 parts.
  EXPECT_DOUBLE_EQ(zipf.imbalance(4, 4), 4. * 12 / 25);
  for (const char* wrong : {"0.9", "zipf:0", "zipf:9", "zipf:x", "even", "-1"}) {
    EXPECT_THROW(parse_expert_load(wrong), Error) << wrong;
  }
  Model model = tiny();
  Training training = fused(8);
  training.data_parallel = 2;
  training.expert_parallel = 2;
  training.expert_load = parse_expert_load("1.5");
  ExpertRows rows = expert_rows(model, training);
  EXPECT_EQ(rows.rows, 24);
  EXPECT_EQ(rows.rows_each, 12);
  EXPECT_EQ(rows.dropped, 0);
  training.expert_capacity = 1.25;
  rows = expert_rows(model, training);
  EXPECT_EQ(rows.rows, 20);
  EXPECT_DOUBLE_EQ(rows.dropped, 1 - 1.25 / 1.5);
}

std::string refused(const Model& model, const Training& training) {
  try {
    CostModel(model, ideal_cluster(), training);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Experts, DegreesThatDoNotDivide) {
  Training training = fused(12);
  training.data_parallel = 8;
  training.expert_parallel = 3;
  EXPECT_EQ(refused(tiny(), training),
            "--expert-parallel 3: does not divide the 4 experts of tiny; nearest valid: 2 and 4");
  training.data_parallel = 2;
  training.expert_parallel = 4;
  EXPECT_THAT(refused(tiny(), training), ::testing::HasSubstr("nearest valid: 2"));
  training.expert_parallel = 1;
  training.context_parallel = 4;
  EXPECT_EQ(refused(tiny(), training),
            "--sequence-length 12: 4 context-parallel ranks share 2 chunks each of it; nearest "
            "valid: 8 and 16");
  training.sequence_length = 16;
  training.context_exchange = ContextExchange::all_to_all;
  EXPECT_THAT(refused(tiny(), training), ::testing::HasSubstr("nearest valid: 2"));
  training.context_exchange = ContextExchange::ring;
  Model windowed = tiny();
  windowed.kinds = {BlockKind{.window = 4}};
  EXPECT_THAT(refused(windowed, training), ::testing::HasSubstr("give gather or a2a"));
  training.context_exchange = ContextExchange::gather;
  EXPECT_EQ(refused(windowed, training), "nothing");
  training.tensor_parallel = 2;
  training.expert_parallel = 2;
  EXPECT_THAT(refused(tiny(), training), ::testing::HasSubstr("give --sequence-parallel"));
  Training dense = fused(16);
  dense.expert_parallel = 2;
  EXPECT_EQ(refused(testing::llama(4), dense),
            "--expert-parallel 2: llama has no experts; omit it");
}

}  // namespace
}  // namespace pipesim
