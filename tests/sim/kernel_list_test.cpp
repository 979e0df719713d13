// Software that lists its kernels, on devices that say what kernels reach: formulas, what a list
// replaces, and files that say too little.
#include "sim/cost/hardware/kernel_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/cost/estimate/cost_model.h"
#include "sim/cost/estimate/device_times.h"
#include "sim/cost/hardware/cluster.h"
#include "tests/errors.h"

namespace pipesim {
namespace {

// Rates with which times are round numbers.
constexpr const char* device_text = R"({"format":"pipesim-device","version":1,"name":"plain",
  "peak":{"bf16":"100TFLOP/s","fp32":"50TFLOP/s"},"memory":"80GiB","memory_bandwidth":"1TB/s",
  "multiprocessors":64,
  "kernels":{"product_rate":"80TFLOP/s","product_ramp":1024,"product_start":"1us","fp8":2,
    "epilogue":0.5,"sustained":0.8,"stream":"1TB/s","norm":"500GB/s","optimizer":"2TB/s",
    "start":"3us","attention":{"mine":{
      "forward":{"rate":"40TFLOP/s","ramp":100,"start":"5us"},
      "backward":{"rate":"20TFLOP/s","ramp":300,"start":"7us"}}}}})";

constexpr const char* list_text = R"("attention":"mine","optimizer_bytes":30,
  "host_forward":{"product":"1us","kernel":"1us"},"host_backward":{"product":"1us","kernel":"1us"},
  "block":[{"kernel":"norms","pass":"forward","launches":2,"traffic":"norm","bytes":{"hidden":8}},
           {"kernel":"gates","pass":"forward","only":"llama","bytes":{"mlp":6}},
           {"kernel":"last","pass":"forward","ends_block":true,"bytes":{"hidden":2,"weights":1}},
           {"kernel":"norms","pass":"input_gradient","bytes":{"heads":4,"keys":2}},
           {"kernel":"sums","pass":"weight_gradient","bytes":{"weights":18}}],
  "head":[{"kernel":"loss","pass":"forward","bytes":{"logits":14}}])";

SoftwareSpec software_of(const std::string& kernels) {
  return parse_software(R"({"format":"pipesim-software","version":1,"name":"mine",)"
                        R"("values":{"kernels":{)" +
                            kernels + "}}}",
                        "s.json", "plain");
}

Cluster cluster_of(const SoftwareSpec& software) {
  Cluster cluster = find_cluster("dgx-h100");
  cluster.device = parse_device(device_text, "d.json");
  cluster.device.software = software;
  return cluster;
}

Model model_of(Architecture architecture) {
  Model model;
  model.shape_as(architecture);
  model.blocks = 4;
  model.hidden_size = 1024;
  model.heads = 8;
  model.kv_heads = architecture == Architecture::llama ? 2 : 8;
  model.mlp_size = 4096;
  model.vocabulary_size = 32'000;
  model.max_sequence_length = 2048;
  return model;
}

Training training_of(std::int64_t sequences = 1) {
  Training training;
  training.micro_batch_size = sequences;
  training.sequence_length = 2048;
  training.attention = Attention::fused;
  return training;
}

TEST(KernelTimes, FollowTheirFormulas) {
  const DeviceSpec device = parse_device(device_text, "d.json");
  const SoftwareSpec software = software_of(list_text);
  const ListedTimes times(device, *software.kernels);
  EXPECT_NEAR(times.memory_seconds(Traffic::norm, 1e9, 2), 2e-3 + 6e-6, 1e-12);
  EXPECT_NEAR(times.memory_seconds(Traffic::optimizer, 1e9, 0), 5e-4, 1e-12);
  // Full, of a long inner dimension: 2 m n k (1 + 1024 / k) at 80 TFLOP/s x 0.8.
  MatrixProduct product{1, 4096, 4096, 4096};
  const double long_one = 2 * std::pow(4096.0, 3) * 1.25 / 64e12;
  EXPECT_NEAR(times.product_seconds(Precision::bf16, product), long_one + 1e-6, 1e-12);
  EXPECT_NEAR(times.product_seconds(Precision::fp8, product), long_one / 2 + 1e-6, 1e-12);
  EXPECT_NEAR(times.product_seconds(Precision::bf16, product, 0.5), 2 * long_one + 1e-6, 1e-12);
  // Half of the rate, and results of two bytes more.
  EXPECT_NEAR(times.product_seconds(Precision::fp32, product),
              2 * long_one + 0.5 * 2 * 4096 * 4096 / 1e12 + 1e-6, 1e-12);
  product.accumulates = true;
  EXPECT_NEAR(times.product_seconds(Precision::bf16, product),
              long_one + 0.5 * 6 * 4096 * 4096 / 1e12 + 1e-6, 1e-12);
  // A quarter of the multiprocessors: 16 tiles of 128 x 128 on 64.
  const MatrixProduct small{1, 512, 512, 1024};
  EXPECT_NEAR(times.product_seconds(Precision::bf16, small),
              4 * 2 * 512.0 * 512 * 1024 * 2 / 64e12 + 1e-6, 1e-12);
  // Bytes count where there are few operations.
  const MatrixProduct thin{1, 8, 8192, 8192};
  EXPECT_GE(times.product_seconds(Precision::bf16, thin), 2.0 * 8192 * 8192 / 1e12);
  EXPECT_NEAR(times.attention_seconds(Precision::bf16, Pass::forward, 32e9, 100),
              2 * 32e9 / 32e12 + 5e-6, 1e-12);
  EXPECT_NEAR(times.attention_seconds(Precision::bf16, Pass::backward_input, 32e9, 300),
              2 * 32e9 / 16e12 + 7e-6, 1e-12);
  // The software's pause comes with each kernel.
  DeviceSpec slow = device;
  slow.software.kernel_gap_ns = 1000;
  const ListedTimes paused(slow, *software.kernels);
  EXPECT_NEAR(paused.memory_seconds(Traffic::norm, 1e9, 2), 2e-3 + 8e-6, 1e-12);
  EXPECT_NEAR(paused.product_seconds(Precision::bf16, small) -
                  times.product_seconds(Precision::bf16, small),
              1e-6, 1e-12);
  EXPECT_NEAR(paused.attention_seconds(Precision::bf16, Pass::forward, 32e9, 100),
              2 * 32e9 / 32e12 + 6e-6, 1e-12);
}

double seconds_of(const LayerEstimate& layer, const std::string& name, Pass pass) {
  double seconds = 0;
  for (std::size_t i = 0; i < layer.operators.size(); ++i) {
    const Operator& one = layer.operators[i];
    if (one.name == name && one.pass == pass && !one.product) seconds += layer.seconds[i];
  }
  return seconds;
}

TEST(KernelList, ReplacesWhatIsCounted) {
  const Cluster cluster = cluster_of(software_of(list_text));
  for (const Architecture architecture : {Architecture::gpt, Architecture::llama}) {
    const CostModel model(model_of(architecture), cluster, training_of(2));
    const LayerEstimate& block = model.layer(1);
    const double tokens = 4096;
    const double keys = architecture == Architecture::llama ? 256 : 1024;
    const double mlp = architecture == Architecture::llama ? 3 * 4096 : 2 * 4096;
    const double weights = 1024 * (2 * 1024 + 2 * keys + mlp);
    EXPECT_NEAR(seconds_of(block, "norms", Pass::forward), 8 * tokens * 1024 / 5e11 + 6e-6, 1e-12);
    EXPECT_NEAR(seconds_of(block, "gates", Pass::forward),
                architecture == Architecture::llama ? 6 * tokens * 4096 / 1e12 + 3e-6 : 0, 1e-12);
    EXPECT_NEAR(seconds_of(block, "last", Pass::forward),
                (2 * tokens * 1024 + weights) / 1e12 + 3e-6, 1e-12);
    EXPECT_NEAR(seconds_of(block, "norms", Pass::backward_input),
                tokens * (4 * 1024 + 2 * keys) / 1e12 + 3e-6, 1e-12);
    EXPECT_NEAR(seconds_of(block, "sums", Pass::backward_weight), 18 * weights / 1e12 + 3e-6,
                1e-12);
    EXPECT_NEAR(seconds_of(model.layer(5), "loss", Pass::forward),
                14 * tokens * 32'000 / 1e12 + 3e-6, 1e-12);
    // Nothing else moves bytes.
    double listed = 0;
    for (const char* name : {"norms", "gates", "last"}) {
      listed += seconds_of(block, name, Pass::forward);
    }
    EXPECT_NEAR(block.forward[static_cast<std::size_t>(OperatorClass::elementwise)], listed, 1e-12);
  }
}

TEST(KernelList, SplitsProductsOfAGatedModel) {
  const std::string apart = std::string(list_text) + R"(,"splits_products":true)";
  const auto products = [&](const std::string& text, Architecture architecture) {
    const CostModel model(model_of(architecture), cluster_of(software_of(text)), training_of());
    double flops = 0;
    int count = 0;
    for (const Operator& one : model.layer(1).operators) {
      if (!one.product) continue;
      flops += one.product->flops();
      count += one.pass == Pass::forward;
    }
    return std::pair(count, flops);
  };
  const auto [together, flops] = products(list_text, Architecture::llama);
  EXPECT_EQ(together, 4);
  EXPECT_EQ(products(apart, Architecture::llama), std::pair(7, flops));
  EXPECT_EQ(products(apart, Architecture::gpt).first, 4);
}

TEST(KernelList, StopsRecomputationEarly) {
  Training training = training_of();
  training.recompute.full = true;
  const auto again = [&](const std::string& text) {
    const CostModel model(model_of(Architecture::llama), cluster_of(software_of(text)), training);
    double sum = 0;
    for (const double seconds : model.layer(1).recompute) sum += seconds;
    double forward = 0;
    for (const double seconds : model.layer(1).forward) forward += seconds;
    return std::pair(sum, forward);
  };
  const auto [whole, forward] = again(list_text);
  EXPECT_NEAR(whole, forward, 1e-12);
  const auto [early, same] = again(std::string(list_text) + R"(,"stops_early":true)");
  const DeviceSpec device = parse_device(device_text, "d.json");
  const SoftwareSpec software = software_of(list_text);
  const ListedTimes times(device, *software.kernels);
  const double weights = 1024 * (2 * 1024 + 2 * 256 + 3 * 4096);
  EXPECT_NEAR(whole - early,
              times.product_seconds(Precision::bf16, {1, 2048, 1024, 4096}) +
                  times.memory_seconds(Traffic::stream, 2 * 2048 * 1024 + weights, 1),
              1e-12);
}

// The processor's time counts as far as the device has less to do, over all layers.
TEST(KernelList, WaitsForLaunches) {
  const auto iteration = [&](const char* launch) {
    std::string text = list_text;
    for (std::size_t at; (at = text.find("\"1us\"")) != std::string::npos;) {
      text.replace(at + 1, 3, launch);
    }
    const CostModel model(model_of(Architecture::llama), cluster_of(software_of(text)),
                          training_of());
    double seconds = 0;
    double launches = 0;
    for (int layer = 0; layer < 6; ++layer) {
      const LayerEstimate& one = model.layer(layer);
      seconds += static_cast<double>(one.costs.forward_ns + one.costs.backward_ns()) * 1e-9;
      launches += one.launch_seconds[0] + one.launch_seconds[1];
    }
    return std::pair(seconds, launches);
  };
  const double device = iteration("0us").first;
  const auto [quick, few] = iteration("2us");
  EXPECT_LT(few, device);
  EXPECT_NEAR(quick, device, 1e-8);
  const auto [slow, many] = iteration("2ms");
  EXPECT_GT(many, device);
  EXPECT_NEAR(slow, many, 1e-6);
}

TEST(KernelList, SaysWhatIsKept) {
  const std::string kept =
      std::string(list_text).replace(std::string(list_text).find(R"("bytes":{"hidden":8})"), 20,
                                     R"("bytes":{"hidden":8},"kept":{"hidden":6,"weights":2})");
  Training training = training_of();
  const auto costs = [&](const std::string& text) {
    return CostModel(model_of(Architecture::llama), cluster_of(software_of(text)), training)
        .layer(1)
        .costs;
  };
  const double weights = 1024 * (2 * 1024 + 2 * 256 + 3 * 4096);
  EXPECT_EQ(costs(kept).activation_bytes, std::llround(6 * 2048.0 * 1024 + 2 * weights));
  EXPECT_NE(costs(list_text).activation_bytes, costs(kept).activation_bytes);
  training.recompute.full = true;
  EXPECT_EQ(costs(kept + R"(,"residual_bytes":4)").activation_bytes, 4 * 2048 * 1024);
  const StageCosts wide = costs(kept + R"(,"keeps_wide_weights":true)");
  EXPECT_EQ(wide.gradient_bytes, wide.weight_bytes);
  EXPECT_EQ(wide.optimizer_bytes, 2 * wide.weight_bytes);
  EXPECT_EQ(wide.weight_bytes, 2 * costs(kept).weight_bytes);
}

// A device without a table has an H100's, by the ratio of peaks and of memory's rates.
TEST(KernelRates, AreScaledForADeviceWithoutThem) {
  DeviceSpec device = find_device("h100-sxm-80gb");
  const KernelRates measured = kernels_of(device);
  device.kernels.reset();
  EXPECT_EQ(kernels_of(device).product_flops_per_second, measured.product_flops_per_second);
  for (auto& peak : device.flops_per_second) {
    if (peak) *peak /= 2;
  }
  device.memory_bytes_per_second *= 3;
  const KernelRates scaled = kernels_of(device);
  EXPECT_DOUBLE_EQ(scaled.product_flops_per_second, measured.product_flops_per_second / 2);
  EXPECT_DOUBLE_EQ(scaled.attention[0].backward.flops_per_second,
                   measured.attention[0].backward.flops_per_second / 2);
  EXPECT_DOUBLE_EQ(scaled.bytes_per_second[1], 3 * measured.bytes_per_second[1]);
  EXPECT_EQ(scaled.product_ramp, measured.product_ramp);
}

TEST(KernelList, EveryPresetRunsOnEveryDevice) {
  int listed = 0;
  for (const std::string& software : known_software()) {
    for (const std::string& name : known_clusters()) {
      SCOPED_TRACE(name + " " + software);
      Cluster cluster = find_cluster(name);
      cluster.device.software = find_software(software, cluster.device.kind);
      if (!cluster.device.software.kernels) continue;
      ++listed;
      Training training = training_of();
      if (!cluster.device.flops_per_second[static_cast<std::size_t>(Precision::bf16)]) {
        training.precision = Precision::fp32;
      }
      const CostModel model(model_of(Architecture::llama), cluster, training);
      EXPECT_GT(model.layer(1).costs.forward_ns, 0);
      EXPECT_GT(model.layer(1).costs.backward_ns(), model.layer(1).costs.forward_ns);
    }
  }
  EXPECT_GT(listed, 9 * static_cast<int>(known_clusters().size()));
}

TEST(KernelList, RunsAgainWhatItsPartNames) {
  std::string text = list_text;
  text.replace(text.find(R"("traffic":"norm")"), 16, R"("traffic":"norm","part":"norms")");
  text.replace(text.find(R"("only":"llama")"), 14, R"("only":"llama","part":"activation")");
  Training training = training_of();
  training.recompute.norms = true;
  const auto again = [&] {
    const CostModel model(model_of(Architecture::llama), cluster_of(software_of(text)), training);
    double sum = 0;
    for (const double seconds : model.layer(1).recompute) sum += seconds;
    return sum;
  };
  const DeviceSpec device = parse_device(device_text, "d.json");
  const SoftwareSpec software = software_of(text);
  const ListedTimes times(device, *software.kernels);
  const double norms = times.memory_seconds(Traffic::norm, 8 * 2048 * 1024, 2);
  EXPECT_NEAR(again(), norms, 1e-12);
  training.recompute.activation = true;
  EXPECT_NEAR(again(), norms + times.memory_seconds(Traffic::stream, 6 * 2048 * 4096, 1), 1e-12);
}

TEST(KernelList, CastsWhereProductsHave8Bits) {
  const std::string cast =
      R"("block":[{"kernel":"casts","pass":"forward","of_fp8":true,"launches":2,"bytes":{"mlp":3}},)";
  std::string text = list_text;
  text.replace(text.find(R"("block":[)"), 9, cast);
  Cluster cluster = cluster_of(software_of(text));
  auto& peaks = cluster.device.flops_per_second;
  peaks[static_cast<std::size_t>(Precision::fp8)] = 2e14;
  Training training = training_of();
  const auto elementwise = [&] {
    const CostModel model(model_of(Architecture::gpt), cluster, training);
    return model.layer(1).forward[static_cast<std::size_t>(OperatorClass::elementwise)];
  };
  const double without = elementwise();
  training.precision = Precision::fp8;
  const ListedTimes times(cluster.device, *cluster.device.software.kernels);
  EXPECT_NEAR(elementwise() - without, times.memory_seconds(Traffic::stream, 3 * 2048 * 4096, 2),
              1e-12);
}

// A preset on another one's base changes single keys of its list.
TEST(KernelList, ChangesTheOneOfItsBase) {
  const SoftwareSpec base = find_software("nemo", "h100-sxm-80gb");
  const SoftwareSpec older = find_software("nemo-24.03", "h100-sxm-80gb");
  EXPECT_EQ(base.kernels->attention, "cudnn");
  EXPECT_EQ(older.kernels->attention, "cudnn-9.0");
  EXPECT_EQ(older.kernels->block.size(), base.kernels->block.size());
}

std::string with_losses(const std::string& losses) {
  return R"({"format":"pipesim-cluster","version":1,"base":"dgx-h100","name":"mine",)"
         R"("losses":{)" +
         losses + "}}";
}

TEST(Losses, AreOfProductsAndAttentionAlone) {
  const Cluster lossy =
      parse_cluster(with_losses(R"("watts":400,"node":0.8,"per_doubling":0.01)"), "c.json");
  const double cap = std::cbrt(300.0 / 600.0);
  EXPECT_DOUBLE_EQ(pace_of(lossy, 1), cap);
  EXPECT_DOUBLE_EQ(pace_of(lossy, 2), cap * 0.8);
  EXPECT_DOUBLE_EQ(pace_of(lossy, 8), cap * 0.8);
  EXPECT_DOUBLE_EQ(pace_of(lossy, 64), cap * 0.8 / 1.03);
  const DeviceSpec device = parse_device(device_text, "d.json");
  const SoftwareSpec software = software_of(list_text);
  const ListedTimes whole(device, *software.kernels);
  const ListedTimes half(device, *software.kernels, 0.5);
  EXPECT_EQ(half.memory_seconds(Traffic::norm, 1e9, 2),
            whole.memory_seconds(Traffic::norm, 1e9, 2));
  const MatrixProduct product{1, 4096, 4096, 4096};
  const double start = 1e-6;
  EXPECT_DOUBLE_EQ(half.product_seconds(Precision::bf16, product) - start,
                   2 * (whole.product_seconds(Precision::bf16, product) - start));
  // More power than that of the measurement is no faster.
  EXPECT_EQ(
      pace_of(parse_cluster(with_losses(R"("watts":1000,"node":1,"per_doubling":0)"), "c.json"), 1),
      1);
}

TEST(Losses, SayWhereAFileIsWrong) {
  const auto refused = [](const std::string& text) {
    return testing::input_error_of([&] { parse_cluster(text, "c.json"); });
  };
  EXPECT_NE(refused(with_losses(R"("watts":90)")).find("90 W run no kernels; give more than 100"),
            std::string::npos);
  EXPECT_NE(refused(with_losses(R"("node":0)")).find("losses.node"), std::string::npos);
  EXPECT_NE(refused(with_losses(R"("per_doubling":-1)")).find("losses.per_doubling"),
            std::string::npos);
  std::string other = with_losses(R"("watts":300)");
  other.replace(other.find("dgx-h100"), 8, "mi300x-node");
  EXPECT_NE(refused(other).find("mi300x does not say at which power its kernels were measured"),
            std::string::npos);
}

// Kernels of a changed device follow its peak and its memory.
TEST(KernelRates, FollowAChangedBase) {
  const DeviceSpec base = find_device("h100-sxm-80gb");
  const DeviceSpec slow = find_cluster("grand-teton-h100").device;
  const double part = static_cast<double>(slow.memory_bytes_per_second) /
                      static_cast<double>(base.memory_bytes_per_second);
  ASSERT_LT(part, 1);
  EXPECT_DOUBLE_EQ(slow.kernels->bytes_per_second[0], part * base.kernels->bytes_per_second[0]);
  EXPECT_EQ(slow.kernels->product_flops_per_second, base.kernels->product_flops_per_second);
}

// And a file may change single rates of it, also of a device whose rates are another's.
TEST(KernelRates, ChangeSingleOnesOfABase) {
  const auto device = [](const std::string& base) {
    return parse_device(R"({"format":"pipesim-device","version":1,"base":")" + base +
                            R"(","kernels":{"watts":500,"sustained":0.5}})",
                        "d.json");
  };
  for (const char* base : {"h100-sxm-80gb", "b200"}) {
    const DeviceSpec changed = device(base);
    const KernelRates usual = kernels_of(find_device(base));
    EXPECT_EQ(changed.kernels->watts, 500);
    EXPECT_EQ(changed.kernels->sustained, 0.5);
    EXPECT_EQ(changed.kernels->product_flops_per_second, usual.product_flops_per_second);
    EXPECT_EQ(changed.kernels->attention.size(), usual.attention.size());
  }
}

// Or all but some of another device's, by the peaks and memory bandwidths of both.
TEST(KernelRates, MayBeThoseOfAnotherDevice) {
  const std::string text = R"({"format":"pipesim-device","version":1,"name":"next",
    "peak":{"bf16":"1978TFLOP/s"},"memory":"80GiB","memory_bandwidth":"6.7TB/s",
    "kernels":{"base":"h100-sxm-80gb","product_ramp":7,"attention":{"flash":{
      "forward":{"rate":"1TFLOP/s"},"backward":{"rate":"2TFLOP/s"}}}}})";
  const DeviceSpec next = parse_device(text, "d.json");
  const DeviceSpec usual = find_device("h100-sxm-80gb");
  const double faster =
      1978e12 / *usual.flops_per_second[static_cast<std::size_t>(Precision::bf16)];
  EXPECT_DOUBLE_EQ(next.kernels->product_flops_per_second,
                   faster * usual.kernels->product_flops_per_second);
  EXPECT_EQ(next.kernels->product_ramp, 7);
  EXPECT_EQ(next.kernels->attention.size(), usual.kernels->attention.size());
  EXPECT_EQ(next.kernels->attention_of("flash", "next", "").backward.flops_per_second, 2e12);
  EXPECT_DOUBLE_EQ(next.kernels->attention_of("cudnn", "next", "").forward.flops_per_second,
                   faster * usual.kernels->attention_of("cudnn", "", "").forward.flops_per_second);
  EXPECT_EQ(next.kind, "next");
}

// A second list holds where weights are not kept in fp32.
TEST(KernelList, HasAnotherForWeightsInBf16) {
  const std::string text = R"({"format":"pipesim-software","version":1,"name":"mine","values":{)"
                           R"("kernels":{"keeps_wide_weights":true,"residual_bytes":4,)" +
                           std::string(list_text) +
                           R"(},"bf16_weights":{"keeps_wide_weights":false,"optimizer_kept":4,)"
                           R"("head":[]}}})";
  const SoftwareSpec wide = parse_software(text, "s.json", "plain");
  const SoftwareSpec narrow = with_bf16_weights(wide);
  EXPECT_TRUE(narrow.is_own);
  EXPECT_EQ(narrow.kernels->block.size(), wide.kernels->block.size());
  EXPECT_TRUE(narrow.kernels->head.empty());
  const auto states = [](const SoftwareSpec& software) {
    const CostModel model(model_of(Architecture::gpt), cluster_of(software), training_of());
    const StageCosts& costs = model.layer(1).costs;
    const double parameters = static_cast<double>(model.layer(1).parameters);
    return std::array{static_cast<double>(costs.weight_bytes) / parameters,
                      static_cast<double>(costs.gradient_bytes) / parameters,
                      static_cast<double>(costs.optimizer_bytes) / parameters};
  };
  EXPECT_EQ(states(wide), (std::array{4.0, 4.0, 8.0}));
  EXPECT_EQ(states(narrow), (std::array{2.0, 2.0, 4.0}));
  EXPECT_EQ(testing::input_error_of([&] { with_bf16_weights(narrow); }),
            "--weights bf16: mine keeps them in one way (its file has no bf16_weights); omit the "
            "flag, or give --software pytorch or pytorch-compile");
}

// It changes the list as it is in the end: the base's keys, the file's own, and a device's.
TEST(KernelList, ChangesOfItHoldForWeightsInBf16) {
  const auto of = [](const std::string& more) {
    return with_bf16_weights(parse_software(
        R"({"format":"pipesim-software","version":1,"name":"mine","base":"pytorch",)" + more + "}",
        "s.json", "plain"));
  };
  const SoftwareSpec usual = with_bf16_weights(find_software("pytorch", "plain"));
  EXPECT_EQ(usual.kernels->attention, "cudnn");
  EXPECT_EQ(usual.kernels->optimizer_kept, 4);
  EXPECT_FALSE(usual.kernels->keeps_wide_weights);
  const SoftwareSpec own = of(R"("values":{"kernels":{"attention":"flash"}})");
  EXPECT_EQ(own.kernels->attention, "flash");
  EXPECT_EQ(own.kernels->block.size(), usual.kernels->block.size());
  EXPECT_EQ(of(R"("devices":{"plain":{"kernels":{"attention":"flash"}}})").kernels->attention,
            "flash");
  const SoftwareSpec kept = of(R"("values":{"bf16_weights":{"optimizer_kept":8}})");
  EXPECT_EQ(kept.kernels->optimizer_kept, 8);
  EXPECT_FALSE(kept.kernels->keeps_wide_weights);
  const std::string lone = R"({"format":"pipesim-software","version":1,"name":"mine",)"
                           R"("values":{"bf16_weights":{"optimizer_kept":8}}})";
  EXPECT_EQ(testing::input_error_of([&] { parse_software(lone, "s.json", "plain"); }),
            "s.json:1:81: values.bf16_weights: changes keys of 'kernels', which this software "
            "lacks; give these, or a base that has them");
}

// Blocks that are kept wait for launches as they do where all are, so that times grow evenly.
TEST(KernelList, WaitsForLaunchesOfEachKindOfBlock) {
  const SoftwareSpec software = software_of(
      std::string(list_text).replace(std::string(list_text).find("\"1us\""), 5, R"("9ms")"));
  const auto time = [&](const Recompute& recompute) {
    Training training = training_of();
    training.recompute = recompute;
    const CostModel model(model_of(Architecture::gpt), cluster_of(software), training);
    const StageCosts stage = model.costs({Placement::loop(1, 1), false, {}}).stages[0];
    return stage.forward_ns + stage.backward_ns();
  };
  const std::int64_t none = time({});
  const std::int64_t each = (time({.full = true}) - none) / 4;
  ASSERT_GT(each, 9'000'000);
  for (int blocks = 1; blocks <= 4; ++blocks) {
    EXPECT_NEAR(static_cast<double>(time({.full = true, .blocks = blocks}) - none),
                static_cast<double>(blocks * each), 8);
  }
}

// Values for one device change a base's list, whichever device is asked for.
TEST(KernelList, IsChangedForSingleDevices) {
  const std::string text =
      R"({"format":"pipesim-software","version":1,"name":"mine","base":"nemo",)"
      R"("devices":{"b200":{"kernels":{"attention":"flash"}}}})";
  EXPECT_EQ(parse_software(text, "s.json", "b200").kernels->attention, "flash");
  EXPECT_EQ(parse_software(text, "s.json", "h100-sxm-80gb").kernels->attention, "cudnn");
}

// A device's file is a cluster of that device alone.
TEST(Clusters, MayBeADevice) {
  const Cluster alone = parse_cluster(device_text, "d.json");
  EXPECT_EQ(alone.name, "plain");
  EXPECT_EQ(alone.devices_per_node, 1);
  EXPECT_EQ(alone.nodes, 1);
  EXPECT_EQ(alone.device.multiprocessors, 64);
}

TEST(KernelList, SaysWhereAFileIsWrong) {
  const auto refused = [](const std::string& from, const std::string& to) {
    std::string text = list_text;
    text.replace(text.find(from), from.size(), to);
    return testing::input_error_of([&] { software_of(text); });
  };
  EXPECT_NE(refused(R"("hidden":8)", R"("width":8)").find("unknown key 'width'"),
            std::string::npos);
  EXPECT_NE(refused(R"("pass":"forward")", R"("pass":"backward")").find("unknown pass 'backward'"),
            std::string::npos);
  EXPECT_NE(refused(R"("traffic":"norm")", R"("traffic":"disk")").find("unknown traffic 'disk'"),
            std::string::npos);
  EXPECT_NE(refused(R"("hidden":8)", R"("hidden":-1)").find("must be between 0 and 1000"),
            std::string::npos);
  EXPECT_NE(refused(R"("only":"llama")", R"("only":"bert")").find("unknown architecture 'bert'"),
            std::string::npos);
  EXPECT_NE(refused(R"("optimizer_bytes":30,)", "").find("key 'optimizer_bytes' is missing"),
            std::string::npos);
  std::string other = list_text;
  other.replace(other.find("mine"), 4, "yours");
  const std::string error = testing::input_error_of([&] {
    CostModel(model_of(Architecture::gpt), cluster_of(software_of(other)), training_of());
  });
  EXPECT_NE(error.find("unknown library of attention 'yours'; known, nearest first: mine"),
            std::string::npos)
      << error;
  std::string device = device_text;
  device.replace(device.find(R"("norm":"500GB/s",)"), 17, "");
  EXPECT_NE(testing::input_error_of([&] {
              parse_device(device, "d.json");
            }).find("kernels: key 'norm' is missing"),
            std::string::npos);
}

}  // namespace
}  // namespace pipesim
