// Software as a preset: what a file says, what devices and clusters change of a preset, what each
// value does to a layer's costs, and what a prediction was validated on.
#include "sim/cost/hardware/software.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "sim/cost/estimate/collective_times.h"
#include "sim/cost/estimate/cost_model.h"
#include "sim/cost/estimate/device_times.h"
#include "sim/cost/estimate/error_band.h"
#include "sim/cost/hardware/cluster.h"
#include "sim/cost/hardware/presets.h"
#include "tests/errors.h"
#include "tests/files.h"

namespace pipesim {
namespace {

std::string software_of(const std::string& sections) {
  return R"({"format":"pipesim-software","version":1,"name":"mine",)" + sections + "}";
}

SoftwareSpec parsed(const std::string& sections, const std::string& device = "h100-sxm-80gb") {
  return parse_software(software_of(sections), "s.json", device);
}

std::string refusal(const std::string& sections) {
  return testing::input_error_of([&] { parsed(sections); });
}

Model small_llama() {
  Model model = find_model("llama-3-8b");
  model.blocks = 4;
  return model;
}

Training training_of(int tensor_parallel) {
  Training training;
  training.sequence_length = 4096;
  training.tensor_parallel = tensor_parallel;
  training.sequence_parallel = tensor_parallel > 1;
  training.attention = Attention::fused;
  return training;
}

Cluster h100(const SoftwareSpec& software) {
  Cluster cluster = find_cluster("dgx-h100");
  cluster.device.software = software;
  return cluster;
}

double of(const ClassSeconds& seconds, OperatorClass which) {
  return seconds[static_cast<std::size_t>(which)];
}

TEST(Software, ADeviceHasItsOwnValues) {
  const std::string sections =
      R"("values":{"efficiency":0.9,"p2p_overhead":{"value":"1ms","source":"guessed","unverified":true}},)"
      R"("devices":{"b200":{"efficiency":0.5,"p2p_overhead":"2ms"}})";
  const SoftwareSpec h100 = parsed(sections);
  EXPECT_EQ(h100.name, "mine");
  EXPECT_EQ(h100.efficiency, 0.9);
  EXPECT_EQ(h100.p2p_overhead_ns, 1'000'000);
  EXPECT_EQ(h100.unverified, std::vector<std::string>{"p2p_overhead"});
  const SoftwareSpec b200 = parsed(sections, "b200");
  EXPECT_EQ(b200.efficiency, 0.5);
  EXPECT_EQ(b200.p2p_overhead_ns, 2'000'000);
  EXPECT_TRUE(b200.unverified.empty());
}

TEST(Software, ABaseIsChanged) {
  const SoftwareSpec base = find_software("nanotron", "h100-sxm-80gb");
  const SoftwareSpec changed = parsed(R"("base":"nanotron","values":{"efficiency":0.5})");
  EXPECT_EQ(changed.efficiency, 0.5);
  EXPECT_EQ(changed.host.forward_ns, base.host.forward_ns);
  EXPECT_EQ(changed.network.size(), base.network.size());
  EXPECT_TRUE(changed.deals_by_cost);
}

TEST(Software, SaysWhatIsWrong) {
  EXPECT_EQ(refusal(R"("base":"nanotorn")").substr(0, 46),
            "s.json:1:63: base: unknown software 'nanotorn'");
  EXPECT_EQ(refusal(R"("values":{"efficiency":0})"),
            "s.json:1:79: values.efficiency: 0 is out of range: it must be a factor of more than 0 "
            "and at most 100");
  EXPECT_EQ(refusal(R"("values":{"hidden_exchange":1.5})"),
            "s.json:1:84: values.hidden_exchange: 1.5 is out of range: it must be between 0 and 1");
  EXPECT_EQ(refusal(R"("values":{"layers":"odd"})"),
            "s.json:1:75: values.layers: 'odd': no such way to deal layers out; give even or "
            "cost");
  EXPECT_EQ(refusal(R"("values":{"network":[{"nodes":4,"share":1},{"nodes":2,"share":1}]})")
                .substr(0, 57),
            "s.json:1:99: values.network[1]: 2 nodes after 4; list the");
  // Of other devices, too.
  EXPECT_EQ(refusal(R"("devices":{"b200":{"efficency":1}})").substr(0, 53),
            "s.json:1:87: devices.b200: unknown key 'efficency'; k");
  EXPECT_EQ(refusal(R"("devices":[])"),
            "s.json:1:66: devices: must be an object: values by the name of a device");
  EXPECT_EQ(testing::input_error_of([] { find_software("nanotorn", "b200"); }).substr(0, 41),
            "--software: unknown software 'nanotorn'; ");
}

TEST(Software, SaysWhatMemoryItTakes) {
  const SoftwareSpec own =
      parsed(R"("values":{"activation_memory":1.25,"state_bytes":1.5,"reserved_memory":"1.5GiB"})");
  EXPECT_EQ(own.activation_memory, 1.25);
  EXPECT_EQ(own.state_bytes, 1.5);
  EXPECT_EQ(own.reserved_bytes, std::int64_t{3} << 29);
  EXPECT_EQ(parsed(R"("values":{"reserved_memory":"0B"})").reserved_bytes, 0);
  EXPECT_EQ(refusal(R"("values":{"state_bytes":-1})"),
            "s.json:1:80: values.state_bytes: -1 is out of range: it must be between 0 and 64");
  EXPECT_EQ(refusal(R"("values":{"reserved_memory":"-1GiB"})").substr(0, 42),
            "s.json:1:84: values.reserved_memory: '-1Gi");
  EXPECT_EQ(refusal(R"("values":{"activation_memory":0})").substr(0, 50),
            "s.json:1:86: values.activation_memory: 0 is out of");
}

// A device may hold a whole file of software in place of values.
TEST(Software, MayStandWholeInADevice) {
  const auto cluster = [](const std::string& software) {
    return parse_cluster(
        R"({"format":"pipesim-cluster","version":1,"name":"m","base":"dgx-h100","device":{)"
        R"("software":)" +
            software + "}}",
        "c.json");
  };
  const std::string whole = R"({"format":"pipesim-software","version":1,"name":"own",)"
                            R"("values":{"efficiency":0.5},"devices":{"h100-sxm-80gb":)"
                            R"({"kernel_gap":"2us"},"b200":{"efficency":1}}})";
  std::string right = whole;
  right.replace(right.find("efficency"), 9, "efficiency");
  const SoftwareSpec software = cluster(right).device.software;
  EXPECT_EQ(software.name, "own");
  EXPECT_EQ(software.efficiency, 0.5);
  EXPECT_EQ(software.kernel_gap_ns, 2000);
  EXPECT_EQ(software.p2p_overhead_ns, 0);  // the device's own is replaced
  EXPECT_NE(testing::input_error_of([&] {
              cluster(whole);
            }).find("device.software.devices.b200: unknown key 'efficency'"),
            std::string::npos);
}

// What a device usually runs is what its preset says, and --software takes the place of all of it.
TEST(Software, DevicesNameWhatIsUsual) {
  EXPECT_EQ(find_device("a100-sxm-80gb").software.name, "megatron-2022");
  EXPECT_EQ(find_device("h100-sxm-80gb").software.name, "megatron-core");
  EXPECT_EQ(find_device("laptop-cpu").software.name, "");
  EXPECT_EQ(find_device("a100-sxm-80gb").software.p2p_overhead_ns, 670'000);
  const auto factor = [](const std::string& name) {
    return find_software(name, "a100-sxm-80gb").efficiency;
  };
  EXPECT_EQ(factor("megatron-2022"), 1);
  EXPECT_EQ(factor("megatron-2021"), 0.96);
}

TEST(Bases, DevicesAndClustersChangeSingleKeys) {
  const Cluster base = find_cluster("dgx-h100");
  const Cluster mine = parse_cluster(
      R"({"format":"pipesim-cluster","version":1,"name":"mine","base":"dgx-h100",)"
      R"("device":{"memory":"96GB","matmul":{"peak_share":0.7},)"
      R"("software":{"base":"nemo","efficiency":0.5}},)"
      R"("network":{"share":0.9},"error_band":{"fraction":0.05,"rows":7,"sets":["runs.csv"]}})",
      "c.json");
  EXPECT_EQ(mine.name, "mine");
  EXPECT_EQ(mine.title, "mine");
  EXPECT_EQ(mine.device.kind, "h100-sxm-80gb");
  EXPECT_EQ(mine.device.memory_bytes, 96'000'000'000);
  EXPECT_EQ(mine.device.matmul.peak_share, 0.7);
  EXPECT_EQ(mine.device.matmul.ramp, base.device.matmul.ramp);
  EXPECT_EQ(mine.device.matmul.tiles.size(), base.device.matmul.tiles.size());
  EXPECT_EQ(mine.device.software.name, "nemo");
  EXPECT_EQ(mine.device.software.efficiency, 0.5);
  EXPECT_EQ(mine.network.share, 0.9);
  EXPECT_EQ(mine.network.card_bytes_per_second, base.network.card_bytes_per_second);
  EXPECT_EQ(mine.node.collectives.size(), base.node.collectives.size());
  // What is said is no longer what nothing confirms.
  const auto has = [](const std::vector<std::string>& keys, const std::string& key) {
    return std::ranges::find(keys, key) != keys.end();
  };
  EXPECT_TRUE(has(base.unverified, "network.share"));
  EXPECT_FALSE(has(mine.unverified, "network.share"));
  EXPECT_TRUE(has(mine.device.unverified, "matmul.ramp"));
  const auto band = error_band(small_llama(), mine, training_of(1));
  ASSERT_TRUE(band);
  EXPECT_EQ(band->fraction, 0.05);
  EXPECT_EQ(band->rows, 7);
  EXPECT_EQ(testing::input_error_of([] {
              parse_cluster(
                  R"({"format":"pipesim-cluster","version":1,"name":"m","base":"dgx-h10"})",
                  "c.json");
            }).substr(0, 46),
            "c.json:1:59: base: unknown cluster 'dgx-h10'; ");
}

TEST(SoftwareCosts, EfficiencyAndTrafficScaleTheirClasses) {
  SoftwareSpec plain;
  SoftwareSpec slow = plain;
  slow.efficiency = 0.5;
  slow.elementwise_traffic = 3;
  const CostModel one(small_llama(), h100(plain), training_of(1));
  const CostModel other(small_llama(), h100(slow), training_of(1));
  const auto ratio = [&](int layer, OperatorClass which) {
    return of(other.layer(layer).forward, which) / of(one.layer(layer).forward, which);
  };
  EXPECT_NEAR(ratio(1, OperatorClass::matmul), 2, 1e-9);
  EXPECT_NEAR(ratio(1, OperatorClass::attention), 2, 1e-9);
  EXPECT_NEAR(ratio(1, OperatorClass::elementwise), 3, 1e-9);
  // A factor asked for takes the place of the software's.
  Training asked = training_of(1);
  asked.software_factor = 1;
  EXPECT_EQ(of(CostModel(small_llama(), h100(slow), asked).layer(1).forward, OperatorClass::matmul),
            of(one.layer(1).forward, OperatorClass::matmul));
}

// Exchanges that products hide are hidden forward and backward, in schedules with I and W, too.
TEST(SoftwareCosts, ProductsHideTheirExchanges) {
  SoftwareSpec software;
  const auto costs = [&](bool splits_backward, std::optional<double> asked = {}) {
    Training training = training_of(8);
    training.hidden_exchange = asked;
    return CostModel(small_llama(), h100(software), training)
        .costs({Placement::loop(2, 1), splits_backward, {}})
        .stages[1];
  };
  const StageCosts none = costs(false);
  software.hidden_exchange = 0.5;
  for (const bool splits : {false, true}) {
    const StageCosts hidden = costs(splits);
    EXPECT_LT(hidden.forward_ns, none.forward_ns);
    EXPECT_LT(hidden.backward_ns(), none.backward_ns());
    EXPECT_LT(costs(splits, 1).forward_ns, hidden.forward_ns);
    EXPECT_EQ(costs(splits, 0).forward_ns, none.forward_ns);
  }
  // A forward that runs again hides as much again.
  Training again = training_of(8);
  again.recompute.full = true;
  const auto block = [&](double part) {
    again.hidden_exchange = part;
    return CostModel(small_llama(), h100(software), again).layer(1).costs;
  };
  Training once = again;
  once.recompute.full = false;
  once.hidden_exchange = 0.5;
  EXPECT_NEAR(static_cast<double>(block(0.5).backward_ns()),
              static_cast<double>(
                  CostModel(small_llama(), h100(software), once).layer(1).costs.backward_ns() +
                  block(0.5).forward_ns),
              2);
  Training off = training_of(8);
  off.asynchronous_reduction = false;
  EXPECT_EQ(CostModel(small_llama(), h100(software), off)
                .costs({Placement::loop(2, 1), false, {}})
                .stages[1]
                .forward_ns,
            none.forward_ns);
}

TEST(SoftwareCosts, PeersKeepTheHostBusy) {
  SoftwareSpec software;
  software.host.peers_ns = 50'000'000;
  software.host.peer_ns = 1'000'000;
  software.host.far_peers_ns = 100'000'000;
  software.host.far_peer_ns = 2'000'000;
  const auto forward = [&](int tensor, int pipeline, int replicas) {
    Training training = training_of(tensor);
    training.pipeline_parallel = pipeline;
    training.data_parallel = replicas;
    return CostModel(small_llama(), h100(software), training).layer(1).costs.forward_ns;
  };
  EXPECT_LT(forward(1, 2, 1), 50'000'000);
  EXPECT_EQ(forward(2, 1, 1), 51'000'000);
  EXPECT_EQ(forward(4, 2, 1), 53'000'000);
  EXPECT_EQ(forward(4, 1, 4), 53'000'000);  // nodes, but no pipeline over them
  EXPECT_EQ(forward(4, 4, 1), 53'000'000 + 106'000'000);
}

TEST(SoftwareCosts, NetworksAreSlowerOverMoreNodes) {
  SoftwareSpec software;
  software.network = {{2, 0.8, {}}, {8, 0.4, 0.2}};
  const auto rate = [&](std::int64_t nodes, CollectiveKind kind) {
    const Cluster cluster = h100(software);
    return exchange(cluster, {{0, nodes, 8}}, kind, 1e9).bytes_per_second /
           card_bytes_per_second(cluster);
  };
  EXPECT_NEAR(rate(2, CollectiveKind::all_reduce), 0.8, 1e-12);
  EXPECT_NEAR(rate(4, CollectiveKind::all_reduce), 0.6, 1e-12);
  EXPECT_NEAR(rate(8, CollectiveKind::all_reduce), 0.4, 1e-12);
  EXPECT_NEAR(rate(32, CollectiveKind::all_reduce), 0.4, 1e-12);
  EXPECT_NEAR(rate(4, CollectiveKind::all_gather), 0.5, 1e-12);
  // What a cluster says was measured goes before.
  Cluster measured = h100(software);
  measured.network.collectives = {{2, 80'000'000'000, 40'000'000'000}};
  const Group pair{{0, 2, 8}};
  EXPECT_EQ(exchange(measured, pair, CollectiveKind::all_reduce, 1e9).bytes_per_second, 10e9);
  EXPECT_EQ(exchange(measured, pair, CollectiveKind::all_gather, 1e9).bytes_per_second, 5e9);
}

TEST(SoftwareCosts, GathersOfShardsMayMissCards) {
  SoftwareSpec software;
  Training training = training_of(1);
  training.data_parallel = 16;
  training.zero = 3;
  const auto bytes = [&] {
    return CostModel(small_llama(), h100(software), training)
        .costs({Placement::loop(1, 1), false, {}})
        .stages[0]
        .unshard.bytes;
  };
  const std::int64_t whole = bytes();
  software.gather_share = 0.25;
  EXPECT_NEAR(static_cast<double>(bytes()), 4 * static_cast<double>(whole), 4);
}

TEST(SoftwareCosts, KeepsMore) {
  const auto block = [](const SoftwareSpec& software, int layer) {
    return CostModel(small_llama(), h100(software), training_of(8)).layer(layer).costs;
  };
  const SoftwareSpec plain;
  const Model model = small_llama();
  SoftwareSpec more = plain;
  more.keeps_gathered = true;
  // Inputs of the first products of attention and MLP are kept whole, not an eighth of them.
  const std::int64_t input = 4096 * model.hidden_size * 2;
  EXPECT_EQ(block(more, 1).activation_bytes - block(plain, 1).activation_bytes,
            2 * (input - input / 8));
  more = plain;
  more.logit_bytes = 12;
  EXPECT_EQ(block(more, 5).activation_bytes - block(plain, 5).activation_bytes,
            8 * 4096 * model.vocabulary_size / 8);
  more = plain;
  more.state_bytes = 2;
  more.keeps_placeholders = true;
  const StageCosts states = block(more, 1);
  const std::int64_t parameters = states.gradient_bytes / 4;  // 2 bytes each, and 2 more
  EXPECT_EQ(states.gradient_bytes - block(plain, 1).gradient_bytes, 2 * parameters);
  EXPECT_EQ(states.workspace_bytes - block(plain, 1).workspace_bytes, 2 * parameters);
}

// Of logits more is kept where ranks split them, of gradients those beside wider sums.
TEST(SoftwareCosts, KeepsMoreOfSomeTrainings) {
  const auto layer = [](const SoftwareSpec& software, const Training& training, int which) {
    return CostModel(small_llama(), h100(software), training).layer(which).costs;
  };
  SoftwareSpec more;
  more.split_logit_bytes = 4;
  const Model model = small_llama();
  for (const int ranks : {1, 8}) {
    const Training training = training_of(ranks);
    EXPECT_EQ(layer(more, training, 5).activation_bytes - layer({}, training, 5).activation_bytes,
              ranks == 1 ? 0 : 4 * 4096 * model.vocabulary_size / ranks);
  }
  more = {};
  more.keeps_both_gradients = true;
  Training training = training_of(1);
  EXPECT_EQ(layer(more, training, 1).gradient_bytes, layer({}, training, 1).gradient_bytes);
  training.gradient_bytes = 4;
  EXPECT_EQ(2 * layer(more, training, 1).gradient_bytes, 3 * layer({}, training, 1).gradient_bytes);
}

// What is gathered for 8-bit products has half the bytes; what stays is not gathered again.
TEST(SoftwareCosts, GathersFewerBytes) {
  Training training = training_of(8);
  training.precision = Precision::fp8;
  SoftwareSpec software;
  const auto gathered = [&](int layer) {
    double bytes = 0;
    for (const Operator& one : layer_operators(small_llama(), layer, training, software)) {
      if (one.collective == CollectiveKind::all_gather) bytes += one.bytes;
    }
    return bytes;
  };
  const auto reduced = [&] {
    double bytes = 0;
    for (const Operator& one : layer_operators(small_llama(), 1, training, software)) {
      if (one.collective == CollectiveKind::reduce_scatter) bytes += one.bytes;
    }
    return bytes;
  };
  const double hidden = 4096.0 * static_cast<double>(small_llama().hidden_size) * 2;
  const double of_head = gathered(5);
  EXPECT_EQ(gathered(1), 6 * hidden);
  EXPECT_EQ(reduced(), 4 * hidden);
  software.gathers_fp8 = true;
  EXPECT_EQ(gathered(1), 3 * hidden);
  EXPECT_EQ(reduced(), 4 * hidden);
  EXPECT_EQ(gathered(5), of_head);
  software.gathers_again = false;
  EXPECT_EQ(gathered(1), 2 * hidden);
  training.precision = Precision::bf16;
  EXPECT_EQ(gathered(1), 4 * hidden);
}

// Each stage ends with the layer that brings it over its part, and has one at least.
TEST(SoftwareCosts, LayersAreDealtOutByCost) {
  SoftwareSpec software;
  software.deals_by_cost = true;
  Model model = find_model("llama-3-8b");
  model.blocks = 16;
  model.hidden_size = 2048;
  model.heads = 32;
  model.kv_heads = 32;
  model.mlp_size = 8192;
  model.vocabulary_size = 131'072;  // a head of four blocks
  const auto layout = [&](int stages) {
    return CostModel(model, h100(software), training_of(1))
        .layout({Placement::loop(stages, 1), false, {}});
  };
  // 20 blocks' worth: the fourth stage holds the last block and the head.
  EXPECT_EQ(layout(1), (std::vector<int>{18}));
  EXPECT_EQ(layout(2), (std::vector<int>{12, 6}));
  EXPECT_EQ(layout(4), (std::vector<int>{7, 5, 5, 1}));
  // As many stages as blocks: the first has the embedding and two of them, the last the head.
  std::vector<int> many(16, 1);
  many.front() = 3;
  EXPECT_EQ(layout(16), many);
}

TEST(Products, TakeLongerWhereDimensionsDoNotFit) {
  DeviceSpec device = find_device("a100-sxm-80gb");
  device.matmul.unaligned_8 = 3;
  device.matmul.unaligned_64 = 2;
  const auto seconds = [&](MatrixProduct product) {
    return product_seconds(device, Precision::bf16, product) - 4e-6;  // and a kernel's gap
  };
  DeviceSpec plain = find_device("a100-sxm-80gb");
  plain.matmul.unaligned_8 = plain.matmul.unaligned_64 = 1;
  const auto usual = [&](const MatrixProduct& product) {
    return product_seconds(plain, Precision::bf16, product) - 4e-6;
  };
  const double gap = static_cast<double>(device.software.kernel_gap_ns) * 1e-9;
  ASSERT_NEAR(gap, 4e-6, 1e-12);
  for (const auto& [inner, factor] : {std::pair(4096, 1), {4104, 2}, {4100, 3}}) {
    const MatrixProduct product{1, 8192, 8192, inner};
    EXPECT_NEAR(seconds(product), factor * usual(product), 1e-9) << inner;
    MatrixProduct padded = product;
    padded.is_padded = true;
    EXPECT_NEAR(seconds(padded), usual(product), 1e-12) << inner;
  }
}

TEST(Products, EightBitsHaveAShareOfTheirOwn) {
  DeviceSpec device = find_device("h100-sxm-80gb");
  const MatrixProduct large{1, 16'384, 16'384, 16'384};
  device.matmul.fp8_share = device.matmul.peak_share / 2;
  EXPECT_NEAR(product_seconds(device, Precision::fp8, large),
              product_seconds(device, Precision::bf16, large), 1e-5);
}

// The head's product and attention have 16 bits.
TEST(Products, HeadsHaveSixteenBits) {
  Training training = training_of(1);
  const auto head = [&](Precision precision) {
    training.precision = precision;
    return of(CostModel(small_llama(), h100({}), training).layer(5).forward, OperatorClass::matmul);
  };
  EXPECT_EQ(head(Precision::fp8), head(Precision::bf16));
}

TEST(FusedAttention, IsSlowerBackward) {
  Cluster cluster = h100({});
  cluster.device.fused_attention_share = 0.6;
  cluster.device.fused_attention_backward_share = 0.3;
  Training training = training_of(1);
  const auto attention = [&](bool forward) {
    const CostModel model(small_llama(), cluster, training);
    const LayerEstimate& block = model.layer(1);
    return of(forward ? block.forward : block.backward, OperatorClass::attention);
  };
  const double long_ones = attention(true);
  EXPECT_NEAR(attention(false), 2.5 * 2 * long_ones, 0.02 * long_ones);
}

TEST(ErrorBands, AreThoseOfLikeRuns) {
  Cluster cluster = find_cluster("dgx-h100");
  cluster.device.software = find_software("nanotron", cluster.device.kind);
  Training training = training_of(2);
  training.data_parallel = 8;
  const auto known = nlohmann::json::parse(validated_sets());
  const auto band = error_band(small_llama(), cluster, training);
  ASSERT_TRUE(band);
  const auto row = std::ranges::find_if(
      known["sets"], [](const auto& one) { return one["software"] == "nanotron"; });
  EXPECT_EQ(band->fraction, (*row)["fraction"]);
  EXPECT_EQ(band->rows, (*row)["rows"]);
  EXPECT_EQ(validation_text(cluster, band), "h100-sxm-80gb with nanotron, validated on " +
                                                std::to_string(band->rows) + " rows, " +
                                                std::to_string(*band->held) + " held");
  // No run of it had 8 or 32 bits, was on so few or so many devices, or of software without rows.
  for (const Precision precision : {Precision::fp8, Precision::fp32, Precision::tf32}) {
    Training other = training;
    other.precision = precision;
    EXPECT_FALSE(error_band(small_llama(), cluster, other));
  }
  for (const auto& [replicas, is_known] :
       {std::pair(3, false), {4, true}, {256, true}, {257, false}}) {
    Training other = training;
    other.data_parallel = replicas;
    EXPECT_EQ(error_band(small_llama(), cluster, other).has_value(), is_known) << replicas;
  }
  cluster.device.software = find_software("pytorch", cluster.device.kind);
  EXPECT_FALSE(error_band(small_llama(), cluster, training));
  EXPECT_EQ(validation_text(cluster, {}),
            "h100-sxm-80gb with pytorch, no measurement of such runs");
}

TEST(ErrorBands, OfExpertsAndOfPartsOfSequencesAreApart) {
  Cluster cluster = find_cluster("dgx-h100");
  cluster.device.software = find_software("nemo", cluster.device.kind);
  Training training = training_of(2);
  training.data_parallel = 64;
  Training in_parts = training;
  in_parts.context_parallel = 2;
  Model experts = small_llama();
  experts.experts = 8;
  const auto dense = error_band(small_llama(), cluster, training);
  const auto context = error_band(small_llama(), cluster, in_parts);
  const auto of_experts = error_band(experts, cluster, in_parts);
  ASSERT_TRUE(dense && context && of_experts);
  EXPECT_EQ((std::tuple{dense->rows, context->rows, of_experts->rows}), (std::tuple{5, 17, 9}));
  EXPECT_EQ(error_band(experts, cluster, training)->rows, of_experts->rows);
  // Measured were two ranks, and eight experts.
  in_parts.context_parallel = 4;
  EXPECT_FALSE(error_band(small_llama(), cluster, in_parts));
  EXPECT_TRUE(error_band(experts, cluster, in_parts));
  experts.experts = 256;
  EXPECT_FALSE(error_band(experts, cluster, training));
  // What a cluster was fitted to had neither.
  cluster.error_band.emplace().rows = 3;
  EXPECT_TRUE(error_band(small_llama(), cluster, training));
  EXPECT_FALSE(error_band(small_llama(), cluster, in_parts));
  EXPECT_FALSE(error_band(experts, cluster, training));
}

TEST(ErrorBands, AreNotClaimedWithoutEvidence) {
  Cluster cluster = find_cluster("dgx-h100");
  const Training training = training_of(2);
  Model listed = small_llama();
  listed.architecture = Architecture::layers;
  EXPECT_FALSE(error_band(listed, cluster, training));
  Model experts = small_llama();
  experts.experts = 8;
  EXPECT_FALSE(error_band(experts, cluster, training));
  EXPECT_FALSE(memory_error_band(experts, cluster));
  // Kernels of software on a device that nobody measured.
  Cluster unmeasured = find_cluster("mi300x-node");
  unmeasured.device.software = find_software("pytorch", unmeasured.device.kind);
  EXPECT_FALSE(error_band(small_llama(), unmeasured, training));
  // Nor is a preset's band that of the one that it is based on.
  Training many = training;
  many.data_parallel = 64;
  for (const auto& [name, is_known] :
       {std::pair("gb200-nvl72", true), {"gb300-nvl72", false}, {"hgx-h800", false}}) {
    Cluster based = find_cluster(name);
    based.device.software = find_software("nemo", based.device.kind);
    EXPECT_EQ(error_band(small_llama(), based, many).has_value(), is_known) << name;
    EXPECT_FALSE(memory_error_band(small_llama(), based)) << name;
  }
  cluster.device.software.name = "of my own";
  cluster.device.software.kernels.reset();
  EXPECT_FALSE(error_band(small_llama(), cluster, training));
  EXPECT_EQ(validation_text(cluster, {}),
            "h100-sxm-80gb with of my own, no measurement of such runs");
}

}  // namespace
}  // namespace pipesim
