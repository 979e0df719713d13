// What is computed again for backwards: its names, and what each part of it costs in bytes and
// time, against published closed forms and sums of the operators.
#include "sim/cost/estimate/recompute.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "sim/cost/estimate/cost_model.h"
#include "tests/errors.h"
#include "tests/ideal_cluster.h"

namespace pipesim {
namespace {

using testing::gpt;
using testing::ideal_cluster;
using testing::llama;
using testing::training;

constexpr Recompute::Part parts[] = {&Recompute::attention, &Recompute::norms,
                                     &Recompute::activation};

// Every set of parts, the empty one first.
std::vector<Recompute> all_sets() {
  std::vector<Recompute> sets;
  for (int set = 0; set < 8; ++set) {
    Recompute& one = sets.emplace_back();
    for (int p = 0; p < 3; ++p) one.*parts[p] = (set >> p & 1) != 0;
  }
  return sets;
}

LayerEstimate block(const Model& model, Training how, const Recompute& recompute) {
  how.recompute = recompute;
  return CostModel(model, ideal_cluster(), how).layer(1);
}

TEST(Recompute, NamesAreReadBack) {
  std::set<std::string> names;
  std::vector<Recompute> all = all_sets();
  all.push_back({.full = true});
  all.push_back({.full = true, .blocks = 3});
  for (const Recompute& one : all) {
    const std::string name = recompute_name(one);
    EXPECT_EQ(parse_recompute(name), one) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(recompute_name({}), "none");
  EXPECT_EQ(recompute_name({.attention = true}), "selective");
  EXPECT_EQ(recompute_name({.attention = true, .activation = true}), "attention,activation");
  EXPECT_EQ(parse_recompute("attention"), Recompute{.attention = true});
  EXPECT_EQ(parse_recompute("activation,selective,norms"), all[7]);
  EXPECT_EQ(recompute_words(all[7]), "attention, norms and activation");
  EXPECT_EQ(recompute_words({.norms = true, .activation = true}), "norms and activation");
  EXPECT_EQ(recompute_words({.norms = true}), "norms");
}

TEST(Recompute, WrongNamesAreRefused) {
  const std::pair<const char*, const char*> wrong[] = {
      {"norm",
       "--recompute: unknown recomputation 'norm'; known, nearest first: norms, none, full, "
       "mlp, shared, latent, experts, products, attention, selective, activation"},
      {"norms,",
       "--recompute: unknown recomputation ''; known, nearest first: mlp, none, full, "
       "norms, latent, shared, experts, products, selective, attention, activation"},
      {"norms,norms",
       "--recompute norms,norms: norms is given twice; give attention, norms, activation, "
       "products, latent, mlp, shared and experts at most once each"},
      {"selective,attention",
       "--recompute selective,attention: attention is given twice; give attention, norms, "
       "activation, products, latent, mlp, shared and experts at most once each (selective is "
       "another name for attention)"},
      {"full,norms",
       "--recompute full,norms: full excludes all others; give it alone, or some of attention, "
       "norms, activation, products, latent, mlp, shared and experts"},
      {"full:0", "--recompute full:N: 0 must be 1 or more"},
      {"full:3,norms",
       "--recompute full:3,norms: full excludes all others; give it alone, or some of attention, "
       "norms, activation, products, latent, mlp, shared and experts"},
      {"norms,none",
       "--recompute norms,none: none excludes all others; give it alone, or some of attention, "
       "norms, activation, products, latent, mlp, shared and experts"}};
  for (const auto& [text, message] : wrong) {
    EXPECT_EQ(testing::input_error_of([&, given = text] { parse_recompute(given); }), message);
  }
}

TEST(Recompute, WhatALayerLacksIsRefused) {
  Model other = gpt(4, 1024, 1);
  other.name = "other";
  other.shape_as(Architecture::mlp);
  const std::pair<const char*, const char*> wrong[] = {
      {"attention", "selective: other has no attention"},
      {"norms", "norms: other has no norms"},
      {"activation", "activation: other has no activation between GEMMs of a block"}};
  for (const auto& [text, what] : wrong) {
    EXPECT_EQ(
        testing::input_error_of(
            [&, given = text] { check_recompute(parse_recompute(given), other); }),
        std::string("--recompute ") + what + " to compute again; nearest valid: none and full");
  }
  EXPECT_NO_THROW(check_recompute({.full = true}, other));
  EXPECT_NO_THROW(check_recompute({}, other));
  other.architecture = Architecture::layers;
  for (const char* text : {"attention", "norms", "activation", "full"}) {
    EXPECT_NE(testing::input_error_of([&] {
                check_recompute(parse_recompute(text), other);
              }).find("other is a list of layers, whose backward times are given; valid: none"),
              std::string::npos);
  }
}

// Of the bytes of Korthikanti et al., arXiv 2205.05198, section 4.1: the scores, their softmax and
// dropout take 5as^2b; the inputs of the attention's and of the MLP's first product 2sbh each,
// which tensor parallelism alone leaves whole; the GELU's result 8sbh.
TEST(Recompute, PartsAreNotKeptByTheirPublishedBytes) {
  for (const auto& [b, s, h, a] :
       {std::array<std::int64_t, 4>{4, 2048, 6144, 64}, {3, 1024, 1536, 16}, {1, 4096, 2048, 32}}) {
    const std::int64_t sbh = s * b * h;
    for (const int t : {1, 2, 8}) {
      for (const bool sequence : {false, true}) {
        if (t == 1 && sequence) continue;
        Training how = training(b, s, t);
        how.sequence_parallel = sequence;
        const LayerEstimate none = block(gpt(2, h, a), how, {});
        for (const Recompute& one : all_sets()) {
          std::int64_t again = 0;
          if (one.attention) again += 5 * a * s * s * b / t;
          if (one.norms) again += 4 * sbh / (sequence ? t : 1);
          if (one.activation) again += 8 * sbh / t;
          const StageCosts costs = block(gpt(2, h, a), how, one).costs;
          EXPECT_EQ(costs.activation_bytes, none.costs.activation_bytes - again)
              << recompute_name(one);
          // It is there again while the layer's backward runs, beside its first gradients, and W
          // needs what it needs.
          EXPECT_EQ(costs.workspace_bytes, none.costs.workspace_bytes + again)
              << recompute_name(one);
          EXPECT_EQ(costs.weight_residue_bytes, none.costs.weight_residue_bytes);
        }
      }
    }
  }
  // Of a block on one rank 34sbh + 5as^2b; 22sbh are left by all parts together.
  EXPECT_EQ(block(gpt(2, 1536, 16), training(3, 1024), all_sets()[7]).costs.activation_bytes,
            22 * 3 * 1024 * 1536);
}

// Gate and up are kept, and what they make together is not; fused attention keeps a number a row
// and head.
TEST(Recompute, PartsOfALlamasBlock) {
  const Model model = llama(4);
  Training how = training(2, 1024, 2);
  how.attention = Attention::fused;
  const LayerEstimate none = block(model, how, {});
  const std::int64_t tokens = 2 * 1024;
  const auto kept = [&](const Recompute& one) { return block(model, how, one).costs; };
  EXPECT_EQ(none.costs.activation_bytes - kept({.activation = true}).activation_bytes,
            tokens * 2816 * 2 / 2);
  EXPECT_EQ(none.costs.activation_bytes - kept({.norms = true}).activation_bytes,
            2 * tokens * 1024 * 2);
  EXPECT_EQ(none.costs.activation_bytes - kept({.attention = true}).activation_bytes,
            4 * tokens * 16 / 2);
}

// Experts keep copies of what they read; the router, like the attention, reads a norm's result.
TEST(Recompute, PartsOfABlockWithExperts) {
  Model model = llama(4);
  model.experts = 8;
  model.experts_per_token = 2;
  model.expert_size = model.mlp_size;
  model.kinds = {BlockKind{.has_experts = true}};
  const Training how = training(1, 1021);
  const LayerEstimate none = block(model, how, {});
  const auto freed = [&](const Recompute& one) {
    return none.costs.activation_bytes - block(model, how, one).costs.activation_bytes;
  };
  EXPECT_EQ(freed({.norms = true}), 2 * 1021 * 1024 * 2);
  EXPECT_EQ(freed({.activation = true}), 1021 * 2 * 2816 * 2);
}

// A backward grows by the forwards of what is computed again, forwards by nothing.
TEST(Recompute, PartsTakeTheirForwardsAgain) {
  for (const Model& model : {gpt(4, 4096, 32), llama(4)}) {
    for (const Attention attention : {Attention::unfused, Attention::fused}) {
      Training how = training(2, 2048, 4);
      how.attention = attention;
      const LayerEstimate none = block(model, how, {});
      const auto forwards = [&](const Recompute& one) {
        double seconds = 0;
        for (std::size_t i = 0; i < none.operators.size(); ++i) {
          const Operator& op = none.operators[i];
          if (op.pass != Pass::forward) continue;
          const bool is_norm = op.name == "attention norm" || op.name == "mlp norm";
          const bool is_activation = op.name == "gelu" || op.name == "silu";
          const bool is_core = op.of == OperatorClass::attention || op.name == "softmax" ||
                               op.name == "dropout" || op.name == "layout";
          if ((one.norms && is_norm) || (one.activation && is_activation) ||
              (one.attention && is_core)) {
            seconds += none.seconds[i];
          }
        }
        return seconds * 1e9;
      };
      for (const Recompute& one : all_sets()) {
        const LayerEstimate again = block(model, how, one);
        EXPECT_EQ(again.costs.forward_ns, none.costs.forward_ns);
        EXPECT_EQ(again.costs.backward_weight_ns, none.costs.backward_weight_ns);
        EXPECT_NEAR(static_cast<double>(again.costs.backward_ns() - none.costs.backward_ns()),
                    forwards(one), 2)
            << recompute_name(one);
        EXPECT_NEAR(static_cast<double>(again.lone_backward_input_ns - none.lone_backward_input_ns),
                    forwards(one), 2);
      }
      EXPECT_GT(forwards({.norms = true}), 0);
      EXPECT_GT(forwards({.activation = true}), 0);
    }
  }
}

// The head's norm and the embedding stay as they are.
TEST(Recompute, OnlyBlocksAreComputedAgain) {
  const Model model = gpt(4, 1024, 16);
  const CostModel none(model, ideal_cluster(), training(2, 1024));
  Training how = training(2, 1024);
  how.recompute = all_sets()[7];
  const CostModel all(model, ideal_cluster(), how);
  for (const int layer : {0, model.layers() - 1}) {
    EXPECT_EQ(all.layer(layer).costs.activation_bytes, none.layer(layer).costs.activation_bytes);
    EXPECT_EQ(all.layer(layer).costs.workspace_bytes, none.layer(layer).costs.workspace_bytes);
    EXPECT_EQ(all.layer(layer).costs.backward_ns(), none.layer(layer).costs.backward_ns());
  }
  // Norms and activations are no products.
  const PipelineShape shape{Placement::loop(1, 1), false, {}};
  const double blocks = static_cast<double>(model.blocks);
  EXPECT_DOUBLE_EQ(all.recomputed_flops(shape), blocks * 2 * 4 * 1024 * 1024 * 1024);
  how.recompute = {.norms = true, .activation = true};
  EXPECT_EQ(CostModel(model, ideal_cluster(), how).recomputed_flops(shape), 0);
}

// Of each stage as many as it has.
TEST(Recompute, BlocksOfUnevenStagesAreCounted) {
  Model model = gpt(4, 1024, 16);
  model.blocks = 10;
  Training how = training(1, 1024);
  how.recompute = {.full = true, .blocks = 3};
  const CostModel some(model, ideal_cluster(), how);
  const PipelineShape shape{Placement::loop(2, 2), false, std::vector<int>{3, 1, 5, 3}};
  how.recompute = {.full = true};
  const CostModel every(model, ideal_cluster(), how);
  const double block = every.recomputed_flops(shape) / 10;
  EXPECT_DOUBLE_EQ(some.recomputed_flops(shape), (2 + 1 + 3 + 2) * block);
  EXPECT_DOUBLE_EQ(some.recomputed_flops({Placement::loop(1, 1), false, {}}), 3 * block);
  how.recompute = {};
  EXPECT_EQ(CostModel(model, ideal_cluster(), how).recomputed_flops(shape), 0);
  // A block's forward, counted once.
  EXPECT_DOUBLE_EQ(3 * 10 * block / some.model_flops(1),
                   1 - 2. * 1024 * 1024 * 51200 * 3 / some.model_flops(1));
}

// A stage is the sum of its layers: so many blocks that are computed again, the others kept.
TEST(Recompute, FirstBlocksOfStagesAloneAreComputedAgain) {
  Model model = gpt(4, 1024, 16);
  model.blocks = 10;
  const auto stages = [&](const Recompute& recompute) {
    Training how = training(1, 1024);
    how.recompute = recompute;
    how.pipeline_parallel = 2;
    return CostModel(model, ideal_cluster(), how).costs({Placement::loop(2, 1), false, {}}).stages;
  };
  const auto none = stages({});
  const auto full = stages({.full = true});
  const Model& same = model;
  Training how = training(1, 1024);
  const LayerEstimate plain = block(same, how, {});
  const LayerEstimate again = block(same, how, {.full = true});
  for (int count = 1; count <= 6; ++count) {
    const auto some = stages({.full = true, .blocks = count});
    const int blocks = std::min(count, 5);
    for (int stage = 0; stage < 2; ++stage) {
      const auto at = static_cast<std::size_t>(stage);
      EXPECT_EQ(some[at].forward_ns, none[at].forward_ns);
      EXPECT_EQ(some[at].backward_ns() - none[at].backward_ns(),
                blocks * (again.costs.backward_ns() - plain.costs.backward_ns()));
      EXPECT_EQ(none[at].activation_bytes - some[at].activation_bytes,
                blocks * (plain.costs.activation_bytes - again.costs.activation_bytes));
    }
    // Those that are kept have freed what they hold when the others are computed again.
    EXPECT_EQ(some[0].workspace_bytes,
              std::max(plain.costs.workspace_bytes,
                       full[0].workspace_bytes - (5 - blocks) * plain.costs.activation_bytes));
  }
}

}  // namespace
}  // namespace pipesim
