// Costs of a model on a cluster, against published closed forms and against
// what must hold for any shape.
#include "sim/cost/estimate/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sim/cost/estimate/collective_times.h"
#include "sim/cost/estimate/device_times.h"
#include "tests/errors.h"
#include "tests/ideal_cluster.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using testing::gpt;
using testing::ideal_cluster;
using testing::ideal_device;
using testing::llama;
using testing::training;

double flops(const LayerEstimate& layer, Pass pass) {
  double sum = 0;
  for (const Operator& one : layer.operators) {
    if (one.pass == pass) sum += one.flops;
  }
  return sum;
}

// ---- FLOPs and bytes

// Qi et al., arXiv 2401.10241, table 1, for one tensor-parallel rank.
TEST(CostModel, BlocksNeedThePublishedFlops) {
  for (const int t : {1, 2, 4, 8}) {
    for (const std::int64_t h : {1024, 6144}) {
      const double s = 2048;
      const double b = 3;
      const CostModel model(gpt(2, h, 16), ideal_cluster(), training(3, 2048, t));
      const LayerEstimate& block = model.layer(1);
      const double hd = static_cast<double>(h);
      EXPECT_DOUBLE_EQ(flops(block, Pass::forward) * t, s * b * hd * (24 * hd + 4 * s));
      EXPECT_DOUBLE_EQ(flops(block, Pass::backward_input) * t, s * b * hd * (24 * hd + 8 * s));
      EXPECT_DOUBLE_EQ(flops(block, Pass::backward_weight) * t, s * b * hd * 24 * hd);
      EXPECT_DOUBLE_EQ(flops(model.layer(3), Pass::forward) * t, 2 * s * b * hd * 51200);
    }
  }
}

// Narayanan et al., arXiv 2104.04473, without recomputation.
TEST(CostModel, ModelFlopsAreThePublishedFormula) {
  Training how = training(2, 2048, 8);
  how.data_parallel = 4;
  const CostModel model(gpt(48, 6144, 64), ideal_cluster(), how);
  const double batch = 2 * 4 * 5;
  const double L = 48, s = 2048, h = 6144, V = 51200;
  EXPECT_NEAR(
      model.model_flops(5) / (72 * batch * L * s * h * h * (1 + s / (6 * h) + V / (12 * h * L))), 1,
      1e-12);
  EXPECT_EQ(model.tokens(5), static_cast<std::int64_t>(batch * s));
  const double peak = 1e14 * 8 * 4;
  EXPECT_NEAR(model.mfu(5, 2'000'000'000), model.model_flops(5) / (2 * peak), 1e-12);
}

// Korthikanti et al., arXiv 2205.05198, table 2.
TEST(CostModel, BlocksKeepThePublishedBytes) {
  const auto kept = [](std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t a, int t,
                       bool sequence, Recompute recompute) {
    Training how = training(b, s, t);
    how.sequence_parallel = sequence;
    how.recompute = recompute;
    return CostModel(gpt(2, h, a), ideal_cluster(), how).layer(1).costs.activation_bytes;
  };
  const Recompute none, selective{.attention = true}, full{.full = true};
  for (const auto& [b, s, h, a] : {std::array<std::int64_t, 4>{1, 2048, 12288, 96},
                                   {4, 2048, 6144, 64},
                                   {3, 1024, 1536, 16},
                                   {1, 4096, 2048, 32}}) {
    const std::int64_t sbh = s * b * h;
    const std::int64_t scores = 5 * a * s * s * b;
    EXPECT_EQ(kept(b, s, h, a, 1, false, none), 34 * sbh + scores);
    EXPECT_EQ(kept(b, s, h, a, 1, false, full), 2 * sbh);
    EXPECT_EQ(kept(b, s, h, a, 1, false, selective), 34 * sbh);
    for (const int t : {2, 4, 8}) {
      EXPECT_EQ(kept(b, s, h, a, t, false, none), 10 * sbh + 24 * sbh / t + scores / t);
      EXPECT_EQ(kept(b, s, h, a, t, true, none), 34 * sbh / t + scores / t);
      EXPECT_EQ(kept(b, s, h, a, t, false, selective), 10 * sbh + 24 * sbh / t);
      EXPECT_EQ(kept(b, s, h, a, t, true, selective), 34 * sbh / t);
      EXPECT_EQ(kept(b, s, h, a, t, false, full), 2 * sbh);
    }
  }
}

// The same paper's section 4.3: what the ends keep; arXiv 2401.10241: what
// stays between I and W.
TEST(CostModel, EndsAndResidueKeepThePublishedBytes) {
  const std::int64_t s = 2048, b = 2, h = 1024, V = 51200;
  const std::int64_t sbh = s * b * h;
  const CostModel model(gpt(2, h, 16), ideal_cluster(), training(b, s));
  EXPECT_EQ(model.layer(0).costs.activation_bytes, sbh);
  EXPECT_EQ(model.layer(3).costs.activation_bytes, 4 * sbh + 4 * s * b * V);
  EXPECT_EQ(model.layer(1).costs.weight_residue_bytes, 32 * sbh);
  EXPECT_EQ(model.layer(1).costs.output_bytes, 2 * sbh);
}

TEST(CostModel, FusedAttentionKeepsNoScoresAndSkipsTheUpperHalf) {
  Training how = training(1, 4096);
  how.attention = Attention::fused;
  const CostModel fused(gpt(2, 1024, 16), ideal_cluster(), how);
  const std::int64_t sbh = std::int64_t{4096} * 1024;
  EXPECT_EQ(fused.layer(1).costs.activation_bytes, 34 * sbh + 4 * 16 * 4096);
  const double s = 4096, h = 1024;
  EXPECT_DOUBLE_EQ(flops(fused.layer(1), Pass::forward), s * h * (24 * h + 2 * s));
}

TEST(CostModel, SharedKeysAndGatedMlpsHaveTheirOwnShapes) {
  const Model model = llama(4);
  const CostModel costs(model, ideal_cluster(), training(1, 1024, 2));
  const std::int64_t h = 1024, kv = 256, f = 2816;
  EXPECT_EQ(costs.layer(1).parameters, (h * (h + 2 * kv) + h * h + 3 * h * f) / 2 + 2 * h);
  const double s = 1024, hd = 1024;
  const double products = 2 * s * (hd * (hd + 512) + hd * hd + 3 * hd * 2816);
  EXPECT_DOUBLE_EQ(flops(costs.layer(1), Pass::forward) * 2, products + 4 * s * s * hd);
  // A head, and a table of the same size that is not tied.
  EXPECT_EQ(costs.layer(5).parameters, 51200 / 2 * h + h);
  EXPECT_EQ(costs.layer(5).tied_parameters, 0);
}

TEST(CostModel, ExpertsHoldAllAndComputeSome) {
  Model one = llama(16);
  Model eight = one;
  eight.experts = 8;
  eight.experts_per_token = 2;
  eight.expert_size = eight.mlp_size;
  eight.kinds = {BlockKind{.has_experts = true}};
  const CostModel dense(one, ideal_cluster(), training(1, 1024));
  const CostModel sparse(eight, ideal_cluster(), training(1, 1024));
  const std::int64_t mlp = 3 * 1024 * 2816;
  EXPECT_EQ(sparse.layer(1).parameters, dense.layer(1).parameters + 7 * mlp + 8 * 1024);
  const double more = flops(sparse.layer(1), Pass::forward) - flops(dense.layer(1), Pass::forward);
  EXPECT_DOUBLE_EQ(more, 2.0 * 1024 * static_cast<double>(mlp + 8 * 1024));
}

TEST(CostModel, ParametersAddUpToTheModels) {
  for (const Model& model : {gpt(6, 1024, 16), llama(4), llama(16)}) {
    const CostModel costs(model, ideal_cluster(), training(1, 128));
    std::int64_t sum = 0;
    for (int i = 0; i < model.layers(); ++i) {
      sum += costs.layer(i).parameters - costs.layer(i).tied_parameters;
    }
    EXPECT_EQ(sum, model.parameters()) << model.name;
  }
}

// ---- States

TEST(CostModel, ShardingDividesStatesInTurn) {
  const auto states = [](int zero, std::optional<int> over) {
    Training how = training(1, 128);
    how.data_parallel = 8;
    how.zero = zero;
    how.shard_over = over;
    const CostModel model(gpt(2, 1024, 16), ideal_cluster(), how);
    const StageCosts& costs = model.layer(1).costs;
    const double n = static_cast<double>(model.layer(1).parameters);
    return std::array<double, 3>{static_cast<double>(costs.weight_bytes) / n,
                                 static_cast<double>(costs.gradient_bytes) / n,
                                 static_cast<double>(costs.optimizer_bytes) / n};
  };
  const auto expect = [](const std::array<double, 3>& got, double w, double g, double o) {
    EXPECT_NEAR(got[0], w, 1e-6);
    EXPECT_NEAR(got[1], g, 1e-6);
    EXPECT_NEAR(got[2], o, 1e-6);
  };
  expect(states(0, {}), 2, 2, 12);
  expect(states(1, {}), 2, 2, 12.0 / 8);
  expect(states(2, {}), 2, 2.0 / 8, 12.0 / 8);
  expect(states(3, {}), 2.0 / 8, 2.0 / 8, 12.0 / 8);
  expect(states(3, 2), 2.0 / 2, 2.0 / 2, 12.0 / 2);
}

TEST(CostModel, ATiedHeadIsHeldOnceOnOneRankAndTwiceOnTwo) {
  const CostModel model(gpt(4, 1024, 16), ideal_cluster(), training(1, 128));
  const auto weights = [&](int ranks) {
    const Placement placement = Placement::loop(ranks, 1);
    const Costs costs = model.costs({placement, false, {}});
    std::int64_t sum = 0;
    for (const StateBytes& rank : costs.states(placement)) sum += rank.weights;
    return sum;
  };
  EXPECT_EQ(weights(1), 2 * model.model().parameters());
  EXPECT_EQ(weights(2), 2 * (model.model().parameters() + 51200 * 1024));
}

// ---- Times

// On a device without overheads a product takes its FLOPs, on any device no less.
TEST(DeviceTimes, ProductsTakeAtLeastTheirFlops) {
  const DeviceSpec ideal = ideal_device();
  const MatrixProduct square{1, 4096, 4096, 4096};
  EXPECT_DOUBLE_EQ(product_seconds(ideal, Precision::bf16, square), square.flops() / 1e14);

  const DeviceSpec real = find_device("a100-sxm-80gb");
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto size = [&] { return static_cast<std::int64_t>(1 + random() % 20000); };
    MatrixProduct product{static_cast<std::int64_t>(1 + random() % 3), size(), size(), size()};
    const double seconds = product_seconds(real, Precision::bf16, product);
    EXPECT_GE(seconds, product.flops() / 312e12);
    // Longer inner dimensions, other sizes alike, never take less.
    MatrixProduct longer = product;
    longer.inner += 64;
    EXPECT_GE(product_seconds(real, Precision::bf16, longer), seconds);
    EXPECT_GT(product_seconds(real, Precision::bf16, product, 0.9), seconds * 0.999999);
  }
}

TEST(DeviceTimes, APartOfAWaveCountsAsItsShareSays) {
  DeviceSpec device = ideal_device();
  device.multiprocessors = 100;
  device.matmul.tiles = {{128, 128, 1}};
  const auto seconds = [&](double whole_waves, std::int64_t tiles) {
    device.matmul.whole_waves = whole_waves;
    return product_seconds(device, Precision::bf16, {1, 128 * tiles, 128, 1 << 20});
  };
  const double wave = seconds(0, 100);
  EXPECT_DOUBLE_EQ(seconds(0, 250), 2.5 * wave);
  EXPECT_DOUBLE_EQ(seconds(1, 250), 3 * wave);
  EXPECT_DOUBLE_EQ(seconds(0.5, 250), 2.75 * wave);
  EXPECT_DOUBLE_EQ(seconds(0, 10), wave);  // never less than one
}

TEST(CollectiveTimes, RingsPassTheirPublishedVolumes) {
  const Cluster cluster = ideal_cluster();
  const double n = 1e9;
  const auto seconds = [&](int ranks, int stride, CollectiveKind kind) {
    return exchange(cluster, {{0, stride, ranks}}, kind, n).seconds();
  };
  EXPECT_EQ(seconds(1, 1, CollectiveKind::all_reduce), 0);
  EXPECT_DOUBLE_EQ(seconds(8, 1, CollectiveKind::all_reduce), 40e-6 + 2 * 7.0 / 8 * n / 200e9);
  EXPECT_DOUBLE_EQ(seconds(8, 1, CollectiveKind::all_gather), 20e-6 + 7.0 / 8 * n / 200e9);
  EXPECT_DOUBLE_EQ(seconds(2, 1, CollectiveKind::reduce_scatter), 5e-6 + 0.5 * n / 100e9);
  // One rank a node: its card alone.
  EXPECT_DOUBLE_EQ(seconds(4, 8, CollectiveKind::all_reduce), 2 * 3.0 / 4 * n / 25e9);
  // Two a node: rings through both, so twice the rate, which the node's links exceed here.
  EXPECT_DOUBLE_EQ(seconds(8, 4, CollectiveKind::all_reduce), 10e-6 * 2 + 2 * 7.0 / 8 * n / 50e9);
  for (const auto& [ranks, stride] : {std::pair{2, 1}, {8, 1}, {16, 1}, {4, 8}, {8, 4}}) {
    EXPECT_NEAR(seconds(ranks, stride, CollectiveKind::all_reduce),
                seconds(ranks, stride, CollectiveKind::all_gather) +
                    seconds(ranks, stride, CollectiveKind::reduce_scatter),
                1e-12);
  }
}

// Switches that sum double what a reduction seems to pass, not what a gather does.
TEST(CollectiveTimes, GathersHaveARateOfTheirOwn) {
  Cluster cluster = ideal_cluster();
  cluster.node.collectives.back().gather_bytes_per_second = 150'000'000'000;
  const double n = 1e9;
  const auto seconds = [&](int ranks, int stride, CollectiveKind kind) {
    return exchange(cluster, {{0, stride, ranks}}, kind, n).seconds();
  };
  EXPECT_DOUBLE_EQ(seconds(8, 1, CollectiveKind::all_reduce), 40e-6 + 2 * 7.0 / 8 * n / 200e9);
  for (const CollectiveKind kind :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all}) {
    EXPECT_DOUBLE_EQ(seconds(8, 1, kind), 20e-6 + 7.0 / 8 * n / 150e9);
    // Where none is given: the reduction's.
    EXPECT_DOUBLE_EQ(seconds(4, 1, kind), 5e-6 + 3.0 / 4 * n / 100e9);
  }
  // Across nodes each kind is held up by its own rate within them.
  cluster.network.card_bytes_per_second = 100'000'000'000;
  EXPECT_DOUBLE_EQ(seconds(16, 1, CollectiveKind::all_reduce),
                   2 * 40e-6 + 2 * 15.0 / 16 * n / 200e9);
  EXPECT_DOUBLE_EQ(seconds(16, 1, CollectiveKind::all_gather), 40e-6 + 15.0 / 16 * n / 150e9);
}

// With sequence parallelism reductions become gathers and scatters, as many bytes.
TEST(CostModel, SequenceParallelismGathers) {
  Cluster cluster = ideal_cluster();
  cluster.node.collectives.back().gather_bytes_per_second = 150'000'000'000;
  Training how = training(2, 2048, 8);
  const auto forward_seconds = [&](bool sequence_parallel) {
    how.sequence_parallel = sequence_parallel;
    return CostModel(gpt(4, 4096, 32), cluster, how)
        .layer(1)
        .forward[static_cast<std::size_t>(OperatorClass::tensor_parallel)];
  };
  const double n = 2.0 * 2 * 2048 * 4096;
  EXPECT_NEAR(forward_seconds(false), 2 * (40e-6 + 2 * 7.0 / 8 * n / 200e9), 1e-12);
  EXPECT_NEAR(forward_seconds(true), 4 * (20e-6 + 7.0 / 8 * n / 150e9), 1e-12);
}

TEST(CostModel, AWholeBackwardHidesReductionsAndApartItDoesNot) {
  Cluster cluster = ideal_cluster();
  cluster.device.software.hidden_reduction = 0.5;
  Training how = training(2, 2048, 8);
  const CostModel model(gpt(4, 4096, 32), cluster, how);
  const Placement placement = Placement::loop(2, 1);
  const Costs whole = model.costs({placement, false, {}});
  const Costs apart = model.costs({placement, true, {}});
  const LayerEstimate& block = model.layer(1);
  EXPECT_GT(block.hidden_seconds, 0);
  EXPECT_NEAR(static_cast<double>(apart.stages[0].backward_ns() - whole.stages[0].backward_ns()),
              2 * block.hidden_seconds * 1e9, 3);
  EXPECT_EQ(apart.stages[0].backward_weight_ns, whole.stages[0].backward_weight_ns);
  how.asynchronous_reduction = false;
  EXPECT_EQ(CostModel(gpt(4, 4096, 32), cluster, how).layer(1).hidden_seconds, 0);
}

TEST(CostModel, RecomputationAddsTheForwardOrItsAttention) {
  const auto layer = [](Recompute recompute) {
    Training how = training(2, 2048, 4);
    how.recompute = recompute;
    return CostModel(gpt(4, 4096, 32), ideal_cluster(), how).layer(1);
  };
  const LayerEstimate none = layer({});
  const LayerEstimate selective = layer({.attention = true});
  const LayerEstimate full = layer({.full = true});
  EXPECT_NEAR(static_cast<double>(full.costs.backward_ns()),
              static_cast<double>(none.costs.backward_ns() + none.costs.forward_ns), 2);
  const double attention = none.forward[static_cast<std::size_t>(OperatorClass::attention)];
  EXPECT_NEAR(static_cast<double>(selective.costs.backward_ns() - none.costs.backward_ns()),
              attention * 1e9, 2);
  // What is computed again is there again while the backward runs.
  for (const LayerEstimate& one : {selective, full}) {
    EXPECT_EQ(none.costs.activation_bytes + none.costs.workspace_bytes,
              one.costs.activation_bytes + one.costs.workspace_bytes);
  }
  // Beside it stand the gradient that has come, of sbh numbers, and that by the
  // MLP's inner 4sbh, of which each of four ranks has a part.
  EXPECT_EQ(none.costs.workspace_bytes, 2 * (2 * 2048 * 4096 + 4 * 2 * 2048 * 4096 / 4));
}

TEST(CostModel, TheGradientOfTheLogitsIsThereInTheHeadsBackward) {
  const Training how = training(2, 2048, 4);
  const Model model = gpt(4, 4096, 32);
  const LayerEstimate head = CostModel(model, ideal_cluster(), how).layer(model.layers() - 1);
  EXPECT_EQ(head.costs.workspace_bytes, 2 * how.micro_batch_size * how.sequence_length *
                                            model.vocabulary_size / how.tensor_parallel);
}

// ---- Pipelines

TEST(CostModel, StagesAddUpToLayers) {
  const CostModel model(gpt(10, 1024, 16), ideal_cluster(), training(1, 512));
  const Placement placement = Placement::loop(4, 1);
  EXPECT_EQ(model.layout({placement, false, {}}), (std::vector<int>{3, 3, 3, 3}));
  EXPECT_EQ(model.layout({Placement::loop(2, 2), false, {}}), (std::vector<int>{3, 3, 3, 3}));
  EXPECT_EQ(model.layout({Placement::loop(3, 1), false, {}}), (std::vector<int>{4, 4, 4}));
  const Costs costs = model.costs({placement, false, std::vector<int>{5, 1, 2, 4}});
  EXPECT_EQ(costs.stages[0].forward_ns,
            model.layer(0).costs.forward_ns + 4 * model.layer(1).costs.forward_ns);
  EXPECT_EQ(costs.stages[1].forward_ns, model.layer(1).costs.forward_ns);
  EXPECT_EQ(costs.stages[3].backward_ns(),
            model.layer(11).costs.backward_ns() + 3 * model.layer(1).costs.backward_ns());
  EXPECT_EQ(testing::input_error_of([&] {
              model.layout({Placement::loop(4, 3), false, {}});
            }),
            "gpt has 10 blocks, fewer than the 12 virtual stages: each needs at "
            "least one; nearest valid: 10 virtual stages");
}

// Layers that are alike are counted, not listed: the sums are those of one by one.
TEST(CostModel, StagesHoldWhatTheirLayersHold) {
  Model list;
  list.name = "list";
  list.architecture = Architecture::layers;
  for (int i = 0; i < 10; ++i) {
    list.list.push_back({.name = "layer",
                         .parameters = 1000 + 17 * i,
                         .forward_ns = 5 + i / 3,
                         .backward_ns = 9 + i,
                         .saved_bytes = 100 * i,
                         .output_bytes = 10 + i});
  }
  std::mt19937_64 random(1);
  for (const Model& shape : {gpt(8, 1024, 16), llama(4), list}) {
    const CostModel model(shape, ideal_cluster(), training(2, shape.is_listed() ? 1 : 512));
    for (int round = 0; round < 50; ++round) {
      const bool splits = round % 2 == 0;
      std::vector<int> sizes{shape.layers()};
      while (sizes.size() < 4 && sizes.back() > 1) {
        const int part = 1 + static_cast<int>(random() % (sizes.back() - 1));
        sizes.back() -= part;
        sizes.push_back(part);
      }
      const auto stages = static_cast<int>(sizes.size());
      const Costs costs = model.costs({Placement::loop(stages, 1), splits, sizes});
      int layer = 0;
      for (int s = 0; s < stages; ++s) {
        StageCosts sum;
        for (int i = 0; i < sizes[static_cast<std::size_t>(s)]; ++i, ++layer) {
          const LayerEstimate& one = model.layer(layer);
          sum.forward_ns += one.costs.forward_ns;
          sum.backward_input_ns +=
              splits ? one.lone_backward_input_ns : one.costs.backward_input_ns;
          sum.backward_weight_ns += one.costs.backward_weight_ns;
          sum.activation_bytes += one.costs.activation_bytes;
          sum.weight_residue_bytes += one.costs.weight_residue_bytes;
          // A table that one rank holds twice is one.
          const std::int64_t tied = stages == 1 ? one.tied_parameters : 0;
          sum.weight_bytes += one.costs.weight_bytes - 2 * tied;
          sum.gradient_bytes += one.costs.gradient_bytes - 2 * tied;
          sum.optimizer_bytes += one.costs.optimizer_bytes - 12 * tied;
          sum.output_bytes = one.costs.output_bytes;
          sum.workspace_bytes =
              std::max(sum.workspace_bytes - one.costs.activation_bytes, one.costs.workspace_bytes);
        }
        EXPECT_EQ(costs.stages[static_cast<std::size_t>(s)], sum) << shape.name << " " << s;
      }
      EXPECT_EQ(layer, shape.layers());
    }
  }
}

TEST(CostModel, NeighboursOfANodeUseItsLinksAndOthersTheirCards) {
  Training how = training(1, 512, 2);
  how.data_parallel = 2;  // four devices a pipeline rank: two ranks a node
  const CostModel model(gpt(8, 1024, 16), ideal_cluster(), how);
  const Placement placement = Placement::loop(4, 1);
  const Costs costs = model.costs({placement, false, {}});
  EXPECT_EQ(costs.link(0, 1).bytes_per_second, 100'000'000'000);
  EXPECT_TRUE(costs.link(0, 1).through.empty());
  EXPECT_FALSE(costs.link(1, 2).bytes_per_second);
  ASSERT_EQ(costs.link(1, 2).through.size(), 2);
  EXPECT_EQ(costs.shared_links[static_cast<std::size_t>(costs.link(1, 2).through[0])].name,
            "node 0 card 4 out");
  EXPECT_EQ(costs.shared_links[static_cast<std::size_t>(costs.link(1, 2).through[1])].name,
            "node 1 card 0 in");
  EXPECT_EQ(costs.shared_links[0].bytes_per_second, 25'000'000'000);
}

// Eight stages of one replica a node, on one card: only one of them leaves.
TEST(CostModel, ALoneReplicaHasTheWholeCard) {
  Cluster cluster = ideal_cluster();
  cluster.network.cards_per_node = 1;
  const CostModel alone(gpt(16, 1024, 16), cluster, training(1, 512));
  const Placement placement = Placement::loop(16, 1);
  EXPECT_EQ(alone.costs({placement, false, {}}).shared_links[0].bytes_per_second, 25'000'000'000);
  Training four = training(1, 512);
  four.data_parallel = 4;
  const CostModel shared(gpt(16, 1024, 16), cluster, four);
  EXPECT_EQ(shared.costs({placement, false, {}}).shared_links[0].bytes_per_second, 6'250'000'000);
}

TEST(CostModel, ReplicasReduceAndStepByWhatARankHolds) {
  Training how = training(1, 512);
  how.data_parallel = 16;
  Model model = gpt(4, 1024, 16);
  model.tied_head = false;
  const CostModel costs(model, ideal_cluster(), how);
  const Placement placement = Placement::loop(2, 1);
  const Costs two = costs.costs({placement, false, {}});
  const double n = static_cast<double>(costs.layer(0).parameters + 2 * costs.layer(1).parameters);
  // Eight devices a node share eight cards, in rings through all of them.
  EXPECT_NEAR(static_cast<double>(two.reduce_gradients_ns[0]),
              1e9 * (2 * 40e-6 + 2 * 15.0 / 16 * 2 * n / 200e9), 1);
  EXPECT_NEAR(static_cast<double>(two.optimizer_ns[0]), 60 * n / 1e12 * 1e9, 1);
}

// ---- What can't be

TEST(CostModel, RefusesWhatCannotBe) {
  const auto refused = [](auto change, const std::string& words, Model model = gpt(4, 1152, 12)) {
    Cluster cluster = ideal_cluster();
    Training how = training(1, 512);
    change(how, cluster);
    EXPECT_EQ(testing::input_error_of([&] { CostModel(model, cluster, how); }), words);
  };
  refused([](Training& how, Cluster&) { how.tensor_parallel = 8; },
          "--tensor-parallel 8: does not divide 12 heads of gpt; nearest valid: 4");
  refused([](Training& how, Cluster&) { how.tensor_parallel = 3; },
          "--tensor-parallel 3: its groups would straddle nodes of 8 devices of ideal; nearest "
          "valid: 2 and 4");
  Model uneven = llama(4);
  uneven.heads = 12;
  uneven.own_head_size = 64;
  refused([](Training& how, Cluster&) { how.tensor_parallel = 6; },
          "--tensor-parallel 6: does not divide 4 heads of keys and values of llama; nearest "
          "valid: 4",
          uneven);
  refused([](Training& how, Cluster&) { how.sequence_length = 10'000; },
          "--sequence-length 10000: gpt has positions for 8,192 tokens; the longest valid: 8192");
  refused(
      [](Training& how, Cluster&) {
        how.tensor_parallel = 4;
        how.sequence_parallel = true;
        how.sequence_length = 510;
      },
      "--sequence-length 510: --sequence-parallel splits it over 4 ranks, which must divide it; "
      "nearest valid: 508 and 512");
  refused([](Training& how, Cluster&) { how.zero = 4; },
          "--zero 4: the stages are 0 (nothing sharded), 1 (optimizer), 2 (and gradients) and 3 "
          "(and weights)");
  refused(
      [](Training& how, Cluster&) {
        how.zero = 3;
        how.data_parallel = 8;
        how.shard_over = 3;
      },
      "--shard-over 3: does not divide 8 replicas; nearest valid: 2 and 4");
  // Of a square both sides of its root, and what is too large for all.
  refused(
      [](Training& how, Cluster&) {
        how.zero = 3;
        how.data_parallel = 961'000'000;
        how.shard_over = 30'999;
      },
      "--shard-over 30999: does not divide 961,000,000 replicas; nearest valid: 30752 and 31000");
  refused(
      [](Training& how, Cluster&) {
        how.zero = 1;
        how.data_parallel = 6;
        how.shard_over = 7;
      },
      "--shard-over 7: does not divide 6 replicas; nearest valid: 6");
  refused(
      [](Training& how, Cluster& cluster) {
        how.data_parallel = 8;
        how.pipeline_parallel = 3;
        cluster.nodes = 2;
      },
      "3 pipeline ranks x 1 tensor-parallel x 8 data-parallel are 24 devices, but ideal has 2 "
      "nodes of 8; use fewer, or a larger cluster");
  refused(
      [](Training& how, Cluster& cluster) {
        how.data_parallel = 16;
        cluster.nodes = 1;
      },
      "1 pipeline rank x 1 tensor-parallel x 16 data-parallel are 16 devices, but ideal has 1 node "
      "of 8; use fewer, or a larger cluster");
  refused(
      [](Training& how, Cluster& cluster) {
        how.precision = Precision::fp8;
        cluster.device.flops_per_second = {1e13, {}, 1e14, 1e14, {}};
      },
      "--precision fp8: ideal gives no rate for it; there are fp32, fp16, bf16");
}

// What would have no effect is refused.
TEST(CostModel, OnlyBlocksAreComputedAgain) {
  Model other = gpt(4, 1024, 1);
  other.name = "other";
  other.shape_as(Architecture::mlp);
  Training how = training(1, 128);
  how.recompute = {.attention = true};
  EXPECT_EQ(testing::input_error_of([&] { CostModel(other, ideal_cluster(), how); }),
            "--recompute selective: other has no attention to compute again; nearest valid: none "
            "and full");
  other.architecture = Architecture::layers;
  other.list = {{.name = "one", .forward_ns = 1, .backward_ns = 2}};
  how.recompute = {.full = true};
  EXPECT_EQ(testing::input_error_of([&] { CostModel(other, ideal_cluster(), how); }),
            "--recompute full: other is a list of layers, whose backward times are given; "
            "valid: none");
}

TEST(CostModel, RotaryPositionsEndNowhere) {
  Training how = training(1, 9001, 4);
  how.sequence_parallel = true;
  EXPECT_EQ(testing::input_error_of([&] { CostModel(llama(4), ideal_cluster(), how); }),
            "--sequence-length 9001: --sequence-parallel splits it over 4 ranks, which must divide "
            "it; nearest valid: 9000 and 9004");
}

// Counts of values are whole numbers in 64 bits.
TEST(CostModel, RefusesMoreValuesThanCanBeCounted) {
  Model wide = llama(16);
  wide.experts = 65536;
  wide.experts_per_token = 65536;
  wide.mlp_size = 1 << 22;
  EXPECT_NE(testing::input_error_of([&] {
              CostModel(wide, ideal_cluster(), training(16384, 2048));
            }).find("values between two layers"),
            std::string::npos);
}

TEST(CostModel, RefusesWhatNoNumberHolds) {
  Cluster slow = ideal_cluster();
  slow.device.flops_per_second.fill(1);
  EXPECT_NE(testing::input_error_of([&] {
              CostModel(gpt(4, 1024, 16), slow, training(1, 512));
            }).find("a part of the model takes"),
            std::string::npos);
  Model list;
  list.name = "list";
  list.architecture = Architecture::layers;
  list.list = {{.name = "big", .forward_ns = 100'000'000'000'000, .backward_ns = 1}};
  EXPECT_NE(testing::input_error_of([&] {
              CostModel(list, ideal_cluster(), training(100'000, 1));
            }).find("a part of the model takes"),
            std::string::npos);
}

// Each layer may be, but not so many of them on one stage.
TEST(CostModel, RefusesStagesThatNoNumberHolds) {
  const auto refused = [](const Model& model, int stages) {
    return testing::input_error_of([&] {
      CostModel(model, ideal_cluster(), training(1, 1))
          .costs({Placement::loop(stages, 1), false, {}});
    });
  };
  const auto exceeds = [](const std::string& model, int stage, const std::string& most) {
    return "--model, --stages: the layers of virtual stage " + std::to_string(stage) + " of " +
           model + " together exceed " + most +
           "; use more stages, smaller layers or a smaller --micro-batch-size";
  };
  Model list;
  list.name = "list";
  list.architecture = Architecture::layers;
  list.list.assign(4, {.name = "one", .forward_ns = 1, .backward_ns = 2});
  list.list[2].forward_ns = max_time_ns / 2;
  list.list[3].forward_ns = max_time_ns / 2 + 1;
  EXPECT_EQ(refused(list, 2), exceeds("list", 1, "1000000000000000 ns"));
  EXPECT_EQ(refused(list, 4), "no error");
  list.list[0].saved_bytes = max_bytes - 1;
  list.list[1].saved_bytes = 2;
  list.list[2].forward_ns = 1;
  EXPECT_EQ(refused(list, 2), exceeds("list", 0, "1125899906842624 bytes"));
  list.list[1].saved_bytes = 1;
  EXPECT_EQ(refused(list, 2), "no error");
  const Model deep = gpt(1 << 20, 8192, 16);
  EXPECT_EQ(refused(deep, 1), exceeds("gpt", 0, "1125899906842624 bytes"));
  EXPECT_EQ(refused(deep, 64), "no error");
}

TEST(CostModel, ATiedHeadWithoutANormIsTied) {
  Model mlp = gpt(4, 1024, 1);
  mlp.shape_as(Architecture::mlp);
  mlp.dropout_ppm = 0;
  const CostModel model(mlp, ideal_cluster(), training(1, 128));
  EXPECT_EQ(model.layer(5).tied_parameters, 51200 * 1024);
}

// Attention takes 16-bit values where products with weights take 8.
TEST(CostModel, EightBitsAreForWeights) {
  Cluster cluster = ideal_cluster();
  cluster.device.flops_per_second[static_cast<std::size_t>(Precision::fp8)] = 2e14;
  Training how = training(1, 2048);
  const auto seconds = [&](Precision precision, OperatorClass of) {
    how.precision = precision;
    const CostModel model(gpt(4, 4096, 32), cluster, how);
    return model.layer(1).forward[static_cast<std::size_t>(of)];
  };
  EXPECT_DOUBLE_EQ(seconds(Precision::fp8, OperatorClass::matmul),
                   seconds(Precision::bf16, OperatorClass::matmul) / 2);
  EXPECT_DOUBLE_EQ(seconds(Precision::fp8, OperatorClass::attention),
                   seconds(Precision::bf16, OperatorClass::attention));
}

}  // namespace
}  // namespace pipesim
