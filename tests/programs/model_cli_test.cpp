// Costs from a model on a cluster, as a user asks for them: what pipesim prints
// as JSON, what its lists say, and what it refuses.
#include <gtest/gtest.h>

#include "sim/cost/hardware/cluster.h"
#include "sim/cost/model.h"
#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using namespace testing;

TEST(ModelResult, SaysHowFastAndWhetherItFits) {
  const std::string line = small + " --micro-batch-size 2 --data-parallel 2 --zero 1";
  const Json json = json_of(line);
  const double seconds = json["makespan_ns"].get<double>() * 1e-9;
  const double sequences = 8 * 2 * 2;
  EXPECT_DOUBLE_EQ(json["tokens_per_second"].get<double>(), sequences * 1024 / seconds);
  const double flops = gpt_flops(sequences, 1024, 768, 12, 50257);
  EXPECT_NEAR(json["mfu"].get<double>() / (flops / (8 * peak_of_a100 * seconds)), 1, 1e-12);
  EXPECT_EQ(json["training"], (Json{{"model", "gpt2-small"},
                                    {"cluster", "dgx-a100"},
                                    {"device", "a100-sxm-80gb"},
                                    {"devices", 8},
                                    {"micro_batch_size", 2},
                                    {"sequence_length", 1024},
                                    {"tensor_parallel", 1},
                                    {"data_parallel", 2},
                                    {"context_parallel", 1},
                                    {"experts", nullptr},
                                    {"context_parallel_type", nullptr},
                                    {"sequence_parallel", false},
                                    {"recompute", "none"},
                                    {"attention", "unfused"},
                                    {"precision", "bf16"},
                                    {"weights", "bf16"},
                                    {"zero", 1},
                                    {"shard_over", nullptr},
                                    {"gather", nullptr},
                                    {"gradient_bytes", 2},
                                    {"bucket_bytes", nullptr},
                                    {"overlap_gather", false},
                                    {"tensor_overlap", true},
                                    {"hidden_exchange", 0.0},
                                    {"optimizer_bytes", 12},
                                    {"fused_loss", false},
                                    {"fused_sums", true},
                                    {"software", "megatron-2022"},
                                    {"software_factor", 1.0}}));
  // Six rows on one node say little of it: the widest of what Megatron-LM was validated on.
  EXPECT_GT(json["error_band"]["fraction"], 0);
  EXPECT_LT(json["error_band"]["fraction"], 0.2);
  EXPECT_GE(json["error_band"]["rows"], 5);
  EXPECT_EQ(json["error_band"]["sets"], (Json{"korthikanti", "vtrain multi-node"}));
  EXPECT_EQ(json_of("--schedule 1f1b --stages 2 --microbatches 4 --model gpt2-small --cluster "
                    "mi300x-node")["error_band"],
            nullptr);
  EXPECT_EQ(json["fits"], true);
  for (const Json& rank : json["ranks"]) EXPECT_EQ(rank["fits"], true);
  EXPECT_FALSE(json.contains("explanation"));
}

// All that a model predicts says how far predictions of its kind have been off.
TEST(ModelResult, ErrorBandsStandWhereverAModelPredicts) {
  const std::string costs =
      " --stages 4 --microbatches 4 --model gpt2-small --cluster dgx-a100 --tensor-parallel 2";
  const Json band = json_of("--schedule 1f1b" + costs)["error_band"];
  EXPECT_GT(band["fraction"], 0);
  EXPECT_EQ(json_of("partition --schedule 1f1b" + costs)["error_band"], band);
  EXPECT_EQ(json_of("schedules --compare" + costs)["error_band"], band);
  EXPECT_EQ(json_of("goodput --schedule 1f1b" + costs +
                    " --mtbf 1h --restart 1min --storage 1GB/s")["error_band"],
            band);
  const std::string times = " --stages 2 --microbatches 4";
  EXPECT_FALSE(json_of("schedules --compare" + times).contains("error_band"));
  EXPECT_EQ(json_of("goodput --schedule 1f1b" + times +
                    " --mtbf 1h --restart 1min --save-time 1s")["error_band"],
            nullptr);
}

// As many digits as it takes to read the same number again.
TEST(ModelResult, FractionsArePrintedInFull) {
  const std::string text = output_of(small + " --explain --json");
  const Json json = Json::parse(text);
  const Json& explained = json["explanation"];
  const double seconds = json["makespan_ns"].get<double>() * 1e-9;
  EXPECT_DOUBLE_EQ(json["mfu"].get<double>(),
                   explained["model_flops"].get<double>() /
                       (explained["peak_flops_per_second"].get<double>() * seconds));
  EXPECT_DOUBLE_EQ(json["tokens_per_second"].get<double>(),
                   explained["tokens"].get<double>() / seconds);
}

TEST(ModelResult, WithoutAModelTheKeysAreAbsent) {
  const Json json = json_of(schedule);
  for (const char* key : {"training", "tokens_per_second", "mfu", "fits", "explanation"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
}

TEST(ModelResult, FitsIntoTheDeviceUnlessACapIsGiven) {
  const Json json = json_of(large);
  const std::int64_t memory = find_device("a100-sxm-80gb").memory_bytes;
  EXPECT_EQ(json["fits"], false);
  int over = 0;
  for (const Json& rank : json["ranks"]) {
    const bool fits = rank["peak_memory_bytes"].get<std::int64_t>() <= memory;
    EXPECT_EQ(rank["fits"], fits);
    over += fits ? 0 : 1;
  }
  EXPECT_GT(over, 0);
  EXPECT_LT(over, 8);
  const Json capped = json_of(large + " --memory-cap 100GiB");
  EXPECT_EQ(capped["fits"], true);
  EXPECT_EQ(capped["makespan_ns"], json["makespan_ns"]);
}

TEST(ModelResult, DefaultsAreTheModels) {
  const std::string llama =
      schedule + " --model llama-3-8b --cluster dgx-h100 --sequence-length 2048";
  EXPECT_EQ(json_of(llama)["training"]["attention"], "fused");
  EXPECT_EQ(json_of(llama + " --attention unfused")["training"]["attention"], "unfused");
  EXPECT_EQ(json_of(small + " --precision fp32")["training"]["gradient_bytes"], 4);
  EXPECT_EQ(
      json_of(schedule + " --model gpt3-1.3b --cluster dgx-a100")["training"]["sequence_length"],
      2048);
}

// Each changes what it should, in the direction that it should.
TEST(ModelResult, FlagsMeanWhatTheySay) {
  // Large enough that devices, not what launches their kernels, set the pace.
  const std::string line = schedule +
                           " --model gpt3-6.7b --cluster dgx-a100 --tensor-parallel 2 "
                           "--data-parallel 4 --micro-batch-size 4";
  const Json plain = json_of(line);
  const auto time = [](const Json& json) { return json["makespan_ns"].get<std::int64_t>(); };
  const auto bytes = [](const Json& json, const char* what) {
    return json["ranks"][1]["memory_bytes"][what].get<std::int64_t>();
  };
  const Json full = json_of(line + " --recompute full");
  EXPECT_GT(time(full), time(plain));
  EXPECT_LT(bytes(full, "activations"), bytes(plain, "activations"));
  const Json fused = json_of(line + " --attention fused");
  EXPECT_LT(time(fused), time(plain));
  const Json split = json_of(line + " --sequence-parallel");
  EXPECT_LT(bytes(split, "activations"), bytes(plain, "activations"));
  for (const char* stage : {"1", "2", "3"}) {
    const Json sharded = json_of(line + " --zero " + stage);
    EXPECT_EQ((bytes(plain, "optimizer") + 3) / 4, bytes(sharded, "optimizer"));
    EXPECT_EQ(bytes(plain, "gradients") == bytes(sharded, "gradients"), *stage == '1');
    EXPECT_EQ(bytes(plain, "weights") == bytes(sharded, "weights"), *stage != '3');
  }
  const Json halves = json_of(line + " --zero 1 --shard-over 2");
  EXPECT_EQ(bytes(plain, "optimizer") / 2, bytes(halves, "optimizer"));
  EXPECT_EQ(2 * bytes(plain, "gradients"),
            bytes(json_of(line + " --gradient-bytes 4"), "gradients"));
  EXPECT_GT(time(json_of(line + " --tensor-overlap off")), time(plain));
  EXPECT_GT(time(json_of(line + " --software-factor 0.5")), time(plain));
  EXPECT_GT(time(json_of(line + " --precision fp32")), time(plain));
  EXPECT_EQ(json_of(line + " --p2p fifo")["p2p"], "fifo");
  EXPECT_GE(time(json_of(line + " --p2p blocking")), time(plain));
  EXPECT_EQ(json_of(line + " --bucket-bytes 25MB")["training"]["bucket_bytes"], 25'000'000);
}

// Megatron-Core's buckets hold at least 40 million parameters, and a million for each replica.
TEST(ModelResult, SoftwareSaysWhatReplicasDoNextToCompute) {
  const std::string line =
      "--schedule 1f1b --stages 2 --microbatches 4 --model gpt2-small --software megatron-core "
      "--cluster dgx-h100";
  const auto training = [&](const std::string& flags) { return json_of(line + flags)["training"]; };
  EXPECT_EQ(training("")["bucket_bytes"], nullptr);  // one replica reduces nothing
  EXPECT_EQ(training("")["overlap_gather"], false);
  EXPECT_EQ(training(" --data-parallel 4")["bucket_bytes"], 80'000'000);
  EXPECT_EQ(training(" --data-parallel 64 --gradient-bytes 4")["bucket_bytes"], 256'000'000);
  EXPECT_EQ(training(" --data-parallel 4 --bucket-bytes 1MB")["bucket_bytes"], 1'000'000);
  EXPECT_EQ(training(" --data-parallel 4 --bucket-bytes off")["bucket_bytes"], nullptr);
  EXPECT_EQ(training(" --data-parallel 4 --zero 2")["bucket_bytes"], nullptr);
  EXPECT_EQ(training(" --data-parallel 4")["overlap_gather"], false);  // all step all
  EXPECT_EQ(training(" --data-parallel 4 --zero 1")["overlap_gather"], true);
  EXPECT_EQ(training(" --data-parallel 4 --zero 1 --overlap-gather off")["overlap_gather"], false);
  const std::string other =
      "--schedule 1f1b --stages 2 --microbatches 4 --model gpt2-small --software megatron-2022 "
      "--cluster dgx-h100 --data-parallel 4 --zero 1";
  EXPECT_EQ(json_of(other)["training"]["overlap_gather"], false);
  EXPECT_EQ(json_of(other + " --overlap-gather on")["training"]["overlap_gather"], true);
}

TEST(ModelResult, DevicesGiveTheReplicas) {
  const std::string line = small + " --tensor-parallel 2";
  const Json by_devices = json_of(line + " --devices 16");
  EXPECT_EQ(by_devices["training"]["data_parallel"], 2);
  EXPECT_EQ(by_devices, json_of(line + " --data-parallel 2"));
  EXPECT_EQ(by_devices, json_of(line + " --data-parallel 2 --devices 16"));
}

TEST(ModelResult, LayersAreDealtOutByALayout) {
  // The blocks as even as can be, the embedding and the head at the ends.
  EXPECT_EQ(json_of(small), json_of(small + " --layout 4,3,3,4"));
  EXPECT_EQ(json_of(small), json_of(small + " --layout Et*3|(t*3|)*2t*3,L"));
  EXPECT_NE(json_of(small)["ranks"], json_of(small + " --layout 5,3,3,3")["ranks"]);
}

// A rate of nothing is no rate.
TEST(ModelResult, WhatTakesNoTimeHasNoRate) {
  const testing::TemporaryFolder folder;
  const std::string head =
      R"({"format":"pipesim-model","version":1,"name":"idle","architecture":"layers","layers":[)";
  write_file(folder / "times.json", head + R"({"name":"a","forward_ns":0}]})");
  write_file(folder / "flops.json", head + R"({"name":"a","forward_flops":1000}]})");
  write_file(
      folder / "device.json",
      R"({"format":"pipesim-device","version":1,"name":"swift","peak":{"bf16":"1000PFLOP/s"},)"
      R"("memory":"1GiB","memory_bandwidth":"1TB/s"})");
  write_file(folder / "cluster.json",
             R"({"format":"pipesim-cluster","version":1,"name":"one","device":"./device.json",)"
             R"("devices_per_node":1})");
  const std::string line = "--stages 1 --microbatches 8 --cluster " + (folder / "cluster.json") +
                           " --model " + folder.path().string();
  for (const char* file : {"/times.json", "/flops.json"}) {
    const Json json = json_of("--schedule 1f1b --explain " + line + file);
    EXPECT_EQ(json["makespan_ns"], 0);
    EXPECT_EQ(json["tokens_per_second"], nullptr);
    EXPECT_EQ(json["mfu"], nullptr);
    EXPECT_EQ(json["explanation"]["hfu"], nullptr);
    EXPECT_EQ(json["explanation"]["tokens"], 8);
    EXPECT_EQ(json["explanation"]["peak_flops_per_second"], 1e18);
    const Json row = json_of("schedules --compare " + line + file)["rows"][0];
    EXPECT_EQ(row["tokens_per_second"], nullptr);
    EXPECT_EQ(row["mfu"], nullptr);
    const std::string text = unwrapped(output_of("--schedule 1f1b --explain " + line + file));
    EXPECT_TRUE(
        text.starts_with("idle on 1 swift of one, 1F1B, 1 stage, 8 microbatches: 0 ms, of "
                         "which 0 % bubble "))
        << text;
    EXPECT_EQ(text.find("samples/s"), std::string::npos) << text;
    EXPECT_EQ(text.find("MFU"), std::string::npos) << text;
  }
  const std::string counted =
      unwrapped(output_of("--schedule 1f1b --explain " + line + "/flops.json"));
  EXPECT_NE(counted.find("8 samples in 0 ms; the model needs 24.0 kFLOP."), std::string::npos)
      << counted;
  const std::string timed =
      unwrapped(output_of("--schedule 1f1b --explain " + line + "/times.json"));
  EXPECT_NE(timed.find("8 samples in 0 ms; idle does not say its FLOPs."), std::string::npos)
      << timed;
}

// ---- Beside other commands

TEST(ModelCosts, SchedulesAreCompared) {
  const std::string line = "--stages 4 --microbatches 8 --model gpt2-small --cluster dgx-a100";
  const Json rows = json_of("schedules --compare " + line)["rows"];
  int tried = 0;
  for (const Json& row : rows) {
    if (row.contains("error")) continue;
    ++tried;
    const Json alone = json_of("--schedule " + row["schedule"].get<std::string>() + " " + line);
    for (const char* key :
         {"makespan_ns", "tokens_per_second", "mfu", "fits", "peak_memory_bytes"}) {
      EXPECT_EQ(row[key], alone[key]) << row["schedule"] << " " << key;
    }
  }
  EXPECT_GE(tried, 9);
  const std::string text = output_of("schedules --compare " + line);
  EXPECT_NE(text.find(" MFU "), std::string::npos) << text;
  EXPECT_EQ(text.find("per chunk"), std::string::npos) << text;
  const std::string large = output_of(
      "schedules --compare --stages 4 --microbatches 64 --model gpt3-13b --cluster dgx-a100 "
      "--tensor-parallel 8");
  EXPECT_NE(large.find("! exceeds the 79.2 GiB of a100-sxm-80gb."), std::string::npos) << large;
}

TEST(ModelCosts, ATraceReadsBack) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "a.json.gz";
  EXPECT_EQ(output_of(small + " --tensor-parallel 2 --devices 32 --quiet --trace " + path), "");
  const std::string text = output_of("compare " + path + " " + path);
  EXPECT_TRUE(text.starts_with("Both are alike: ")) << text;
}

TEST(Presets, AreListedAndGivenAsFiles) {
  const std::string models = output_of("models");
  for (const Model& model : known_models()) {
    EXPECT_NE(models.find("\n" + model.name + " "), std::string::npos) << model.name;
    const testing::TemporaryFolder folder;
    const std::string text = output_of("models " + model.name);
    EXPECT_EQ(parse_model(text, "file"), model);
    EXPECT_NE(text.find("\n  \"architecture\": "), std::string::npos) << text;
  }
  const std::string clusters = output_of("clusters");
  for (const std::string& name : known_clusters()) {
    EXPECT_NE(clusters.find("\n" + name + " "), std::string::npos) << name;
    EXPECT_EQ(output_of("clusters " + name), cluster_preset(name));
  }
  EXPECT_NE(clusters.find("\ngb200-nvl72       gb200            64 of 72  "), std::string::npos);
  const std::string devices = output_of("devices");
  for (const std::string& name : known_devices()) {
    EXPECT_NE(devices.find("\n" + name + " "), std::string::npos) << name;
    EXPECT_EQ(output_of("devices " + name), device_preset(name));
  }
}

TEST(Presets, FilesStandForNames) {
  const testing::TemporaryFolder folder;
  write_file(folder / "m.json", output_of("models gpt2-small"));
  write_file(folder / "c.json", output_of("clusters dgx-a100"));
  EXPECT_EQ(json_of(schedule + " --model " + (folder / "m.json") + " --cluster " +
                    (folder / "c.json") + " --explain"),
            json_of(small + " --explain"));
}

// ---- What changes nothing

// So that one line of flags serves a sweep over replicas and tensor-parallel ranks.
TEST(WithoutEffect, IsAcceptedAndTold) {
  const std::string replica = "there is one replica";
  const std::string rank = "there is one tensor-parallel rank";
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"", "--zero 1", replica},
      {"--devices 4 ", "--zero 3", replica},
      {"", "--bucket-bytes 1MB", replica},
      {"", "--gather once", replica},
      {"", "--shard-over 1", replica},
      {"--data-parallel 2 ", "--gather once", "without --zero 3 every replica keeps all weights"},
      {"--data-parallel 2 ", "--shard-over 2", "replicas shard nothing with --zero 0"},
      {"--data-parallel 2 ", "--overlap-gather on",
       "only --zero 1 and 2 gather weights after a step"},
      {"", "--sequence-parallel", rank},
      {"", "--tensor-overlap off", rank},
      {"", "--tensor-overlap 0.5", rank}};
  for (const auto& [shape, flag, why] : cases) {
    const std::string line = schedule + " --model gpt2-small --cluster dgx-a100 " + shape;
    const Outcome plain = pipesim(words(line + "--json"));
    const Outcome told = pipesim(words(line + flag + " --json"));
    ASSERT_EQ(told.status, 0) << flag << told.err;
    // All but what was asked for.
    Json result = Json::parse(told.out);
    result["training"] = Json::parse(plain.out)["training"];
    EXPECT_EQ(result, Json::parse(plain.out)) << flag;
    EXPECT_EQ(plain.err, "") << line;
    EXPECT_TRUE(told.err.starts_with("pipesim: note: " + flag.substr(0, flag.find(' '))))
        << told.err;
    EXPECT_NE(told.err.find(" has no effect: " + why + "\n"), std::string::npos) << told.err;
  }
}

// ---- What can't be

TEST(Refused, InOneSentence) {
  const std::string both = " --model gpt2-small --cluster dgx-a100";
  const std::string known_clusters_text = [] {
    std::string names;
    for (const std::string& name : known_clusters()) names += (names.empty() ? "" : ", ") + name;
    return names;
  }();
  const auto letters = [](int layer, int stage, const std::string& what) {
    return "--layout: layer " + std::to_string(layer) + " on virtual stage " +
           std::to_string(stage) + " is " + what + "; its layers are E, 12 t and L in this order";
  };
  const std::pair<std::string, std::string> cases[] = {
      {" --model gpt2-small", "--cluster is missing: what the --model is trained on; known: " +
                                  known_clusters_text + "; or give a file that ends in .json"},
      {" --zero 1", "--zero belongs to --model and --cluster; give both"},
      {" --sequence-parallel", "--sequence-parallel belongs to --model and --cluster; give both"},
      {both + " --costs c.json", "--costs and --model both give costs; keep one"},
      {both + " --forward 1ms", "--forward and --model both give costs; keep one"},
      {both + " --p2p-latency 1us", "--p2p-latency and --model both give costs; keep one"},
      {both + " --compute-slowdown 1%", "--compute-slowdown and --model both give costs; keep one"},
      {both + " --tensor-parallel 5",
       "--tensor-parallel 5: does not divide 12 heads of gpt2-small; nearest valid: 4"},
      {both + " --stages 16",
       "gpt2-small has 12 blocks, fewer than the 16 virtual stages: each needs at least one; "
       "nearest valid: 12 virtual stages"},
      {both + " --devices 10",
       "--devices 10: 4 pipeline ranks x 1 tensor-parallel are 4, which must divide it; nearest "
       "valid: 8 (--data-parallel 2) and 12 (--data-parallel 3)"},
      {both + " --devices 3",
       "--devices 3: 4 pipeline ranks x 1 tensor-parallel are 4, which must divide it; nearest "
       "valid: 4 (--data-parallel 1)"},
      {both + " --stages 3 --devices 1000000000",
       "--devices 1000000000: 3 pipeline ranks x 1 tensor-parallel are 3, which must divide it; "
       "nearest valid: 999999999 (--data-parallel 333333333)"},
      {both + " --stages 1 --tensor-parallel 4 --devices 6",
       "--devices 6: 1 pipeline rank x 4 tensor-parallel are 4, which must divide it; nearest "
       "valid: 4 (--data-parallel 1) and 8 (--data-parallel 2)"},
      {both + " --devices 8 --data-parallel 3",
       "--devices 8: 4 pipeline ranks x 1 tensor-parallel x 3 data-parallel are 12; nearest "
       "valid: --devices 12, or --data-parallel 2"},
      {both + " --devices 9 --data-parallel 3",
       "--devices 9: 4 pipeline ranks x 1 tensor-parallel x 3 data-parallel are 12; nearest "
       "valid: --devices 12"},
      {both + " --stages 1 --tensor-parallel 2 --data-parallel 999999999",
       "1 pipeline rank x 2 tensor-parallel x 999999999 data-parallel are more than 1000000000 "
       "devices; use fewer"},
      {both + " --data-parallel 999999999",
       "4 pipeline ranks x 1 tensor-parallel x 999999999 data-parallel are more than 1000000000 "
       "devices; use fewer"},
      {both + " --zero 4",
       "--zero 4: the stages are 0 (nothing sharded), 1 (optimizer), 2 (and gradients) and 3 (and "
       "weights)"},
      {both + " --shard-over 2", "--shard-over 2: does not divide 1 replica; nearest valid: 1"},
      {both + " --layout 1,10,10,0,1",
       "--layout: stage 3 of '1,10,10,0,1' has no layer; every stage needs one"},
      {both + " --zero x", "--zero: 'x' is not a whole number; give 0, 1, 2 or 3"},
      {both + " --precision fp64",
       "--precision: unknown precision 'fp64'; known, nearest first: fp32, fp16, fp8, bf16, tf32"},
      {both + " --precision fp8",
       "--precision fp8: a100-sxm-80gb gives no rate for it; there are fp32, tf32, fp16, bf16"},
      {both + " --sequence-length 2048",
       "--sequence-length 2048: gpt2-small has positions for 1,024 tokens; the longest valid: "
       "1024"},
      {both + " --recompute ful",
       "--recompute: unknown recomputation 'ful'; known, nearest first: full, mlp, none, norms, "
       "latent, shared, products, experts, selective, attention, activation"},
      {both + " --recompute norms,attention,norms",
       "--recompute norms,attention,norms: norms is given twice; give attention, norms, "
       "activation, products, latent, mlp, shared and experts at most once each"},
      {both + " --recompute full,norms",
       "--recompute full,norms: full excludes all others; give it alone, or some of attention, "
       "norms, activation, products, latent, mlp, shared and experts"},
      {" --model mlp-mini --cluster dgx-a100 --recompute norms",
       "--recompute norms: mlp-mini has no norms to compute again; nearest valid: none and full"},
      {both + " --attention flashy",
       "--attention: unknown attention 'flashy'; known, nearest first: fused, unfused"},
      {both + " --gradient-bytes 3", "--gradient-bytes: unknown value '3'; known: 2, 4"},
      {both + " --tensor-parallel 2 --tensor-overlap yes",
       "--tensor-overlap: 'yes' is neither on, reductions, off nor a part between 0 and 1, of "
       "exchanges that "
       "their own GEMMs hide; give one such as 0.8"},
      {both + " --bucket-bytes 0B",
       "--bucket-bytes: a bucket of 0 bytes holds nothing; give its size, or off to reduce all at "
       "once"},
      {both + " --memory-cap 0B",
       "--memory-cap: a rank of 0 bytes holds nothing; give a limit such as 80GiB"},
      {both + " --stages 1 --data-parallel 1000000000 --zero 1 --shard-over 600000000",
       "--shard-over 600000000: does not divide 1,000,000,000 replicas; nearest valid: 500000000 "
       "and 1000000000"},
      {both + " --software-factor nan",
       "--software-factor: 'nan' is not a factor between 0.01 and 100; give a number such as 0.9"},
      {both + " --micro-batch-size 9999999",
       "--micro-batch-size 9999999 x --sequence-length 1024: too many tokens for one microbatch; "
       "use fewer or shorter sequences"},
      {both + " --micro-batch-size 60000 --data-parallel 250000000 --microbatches 1000",
       "1,000 microbatches of 60000 x 1,024 tokens in 250,000,000 replicas are more than 1e+18 "
       "tokens; use fewer"},
      {both + " --micro-batch-size 0", "--micro-batch-size: 0 must be 1 or more"},
      {both + " --layout 3,3,3,3",
       "--layout: 12 layers on 4 virtual stages, but gpt2-small has 14 layers (embedding and head "
       "included) and the schedule 4 virtual stages"},
      {both + " --layout Et*2|t*3|t*3|t*3L",
       "--layout: 13 layers on 4 virtual stages, but gpt2-small has 14 layers (embedding and head "
       "included) and the schedule 4 virtual stages"},
      {both + " --layout t*4|t*3|t*3|t*3L", letters(0, 0,
                                                    "t, but is where gpt2-small has its "
                                                    "embedding, E")},
      {both + " --layout Et*3|t*3|t*3|t*4", letters(13, 3,
                                                    "t, but is where gpt2-small has its "
                                                    "head, L")},
      {both + " --layout Et*3|Et*2|t*3|t*3L", letters(4, 1,
                                                      "E, but is where gpt2-small has a "
                                                      "block, t")},
      {both + " --layout Et*3L|t*2|t*3|t*4", letters(4, 0,
                                                     "L, but is where gpt2-small has a "
                                                     "block, t")},
      {both + " --layout Et*3|t*3|t*3|ttmL",
       letters(12, 3, "m, multi-token prediction, which gpt2-small does not have")},
      {" --explain", "--explain: only a model breaks down time and memory; give --model"},
  };
  for (const auto& [flags, message] : cases) {
    const std::string stages = flags.find("--stages") == std::string::npos ? " --stages 4" : "";
    const std::string count =
        flags.find("--microbatches") == std::string::npos ? " --microbatches 8" : "";
    const std::string line = "--schedule 1f1b" + count + stages + flags;
    const Outcome outcome = call(line);
    EXPECT_EQ(outcome.status, 2) << line;
    EXPECT_EQ(outcome.out, "") << line;
    EXPECT_EQ(outcome.err, "pipesim: " + message + "\n") << line;
  }
}

TEST(Refused, UnknownNamesNearestFirst) {
  expect_refused(schedule + " --cluster dgx-a100", 2,
                 "--model is missing: what is trained on the ");
  expect_refused(schedule + " --model gpt2-smal --cluster dgx-a100", 2,
                 "--model: unknown model 'gpt2-smal'; known, nearest first: gpt2-small, ");
  expect_refused(schedule + " --model gpt2-small --cluster dgx-a10", 2,
                 "--cluster: unknown cluster 'dgx-a10'; known, nearest first: dgx-a100, ");
  expect_refused(schedule + " --model gpt2-small --cluster a100-sxm-80gb", 2,
                 "; or give a file that ends in .json");
  expect_refused("models gpt2-smal", 2,
                 "unknown model 'gpt2-smal'; known, nearest first: gpt2-small");
  expect_refused("clusters dgxa100", 2,
                 "unknown cluster 'dgxa100'; known, nearest first: dgx-a100");
  expect_refused("devices a100-sxm-80", 2,
                 "unknown device 'a100-sxm-80'; known, nearest first: a100-sxm-80gb");
  expect_refused("schedules --model gpt2-small", 2, "--model belongs to --compare; add it");
  expect_refused("--model gpt2-small models", 2, "--model comes before models");
}

TEST(Refused, BrokenFilesWithTheirPlace) {
  const testing::TemporaryFolder folder;
  const auto refused = [&](const std::string& model, const std::string& cluster,
                           const std::string& message) {
    write_file(folder / "m.json", model);
    write_file(folder / "c.json", cluster);
    expect_refused(
        schedule + " --model " + (folder / "m.json") + " --cluster " + (folder / "c.json"), 2,
        message);
  };
  const std::string model = output_of("models gpt2-small");
  const std::string cluster = output_of("clusters dgx-a100");
  refused(replaced(model, "\"heads\"", "\"head\""), cluster, "m.json:");
  refused(replaced(model, "\"blocks\": 12", "\"blocks\": 0"), cluster, "m.json:6:13: blocks");
  refused(model, replaced(cluster, "\"network\"", "\"netwrok\""),
          "unknown key 'netwrok'; known, nearest first: network");
  refused(model, replaced(cluster, "\"25GB/s\"", "25"), "25 has no unit; write \"25GB/s\"");
  refused(model, replaced(cluster, "\"a100-sxm-80gb\"", "\"a100-sxm-80\""),
          "unknown device 'a100-sxm-80'; known, nearest first: a100-sxm-80gb");
  expect_refused(schedule + " --cluster dgx-a100 --model none.json", 2, "cannot read 'none.json'");
}

// What measured runs of a software did over nodes, and no prediction shows.
TEST(ModelResult, SaysWherePipelinesStalled) {
  const auto stalls = [](const std::string& flags) {
    const Json notes = json_of(
        "--schedule 1f1b --stages 4 --microbatches 32 --model llama-3-8b "
        "--cluster dgx-h100 --tensor-parallel " +
        flags)["notes"];
    return std::ranges::any_of(notes, [](const Json& note) { return note["key"] == "stalls"; });
  };
  EXPECT_TRUE(stalls("4 --software nanotron"));
  EXPECT_FALSE(stalls("2 --software nanotron"));
  EXPECT_FALSE(stalls("4 --software megatron-core"));
}

// Software that lists its kernels names a library of attention, which fuses it.
TEST(Attention, IsFusedByWhatNamesItsLibrary) {
  const auto attention = [](const std::string& flags) {
    return json_of(testing::small + flags)["training"]["attention"].get<std::string>();
  };
  EXPECT_EQ(attention(""), "unfused");
  EXPECT_EQ(attention(" --software megatron-core"), "fused");
  EXPECT_EQ(attention(" --software pytorch"), "fused");
  EXPECT_EQ(attention(" --software pytorch --attention unfused"), "unfused");
}

// Under autocast weights are fp32; all in bf16 is another list, and faster.
TEST(Weights, AreWhatSoftwareKeepsThemIn) {
  const auto of = [](const std::string& flags) {
    return json_of(
        "--schedule 1f1b --stages 1 --microbatches 2 --model llama-3-8b --sequence-length 2048 "
        "--cluster dgx-h100 " +
        flags);
  };
  EXPECT_EQ(of("")["training"]["weights"], "bf16");
  EXPECT_EQ(of("--precision fp8")["training"]["weights"], "bf16");
  EXPECT_EQ(of("--precision fp32 --software megatron-2022")["training"]["weights"], "fp32");
  for (const char* software : {"--software pytorch", "--software pytorch-compile"}) {
    const Json wide = of(software);
    const Json narrow = of(software + std::string(" --weights bf16"));
    EXPECT_EQ(wide["training"]["weights"], "fp32");
    EXPECT_EQ(narrow["training"]["weights"], "bf16");
    EXPECT_LT(narrow["makespan_ns"], wide["makespan_ns"]);
    EXPECT_LT(narrow["ranks"][0]["peak_memory_bytes"], wide["ranks"][0]["peak_memory_bytes"]);
  }
  const auto refused = [](const std::string& flags) {
    const Outcome outcome = pipesim(
        words("--schedule 1f1b --stages 1 --microbatches 2 --model llama-3-8b --cluster dgx-h100 " +
              flags));
    EXPECT_EQ(outcome.status, 2) << flags;
    return outcome.err;
  };
  EXPECT_EQ(refused("--software nemo --weights bf16"),
            "pipesim: --weights bf16: NeMo of 2024 keeps them in one way (its file has no "
            "bf16_weights); omit the flag, or give --software pytorch or pytorch-compile\n");
  EXPECT_EQ(refused("--software pytorch --precision fp16 --weights bf16"),
            "pipesim: --weights bf16: needs --precision bf16, not fp16\n");
  EXPECT_EQ(refused("--software pytorch --weights fp8"),
            "pipesim: --weights: unknown value 'fp8'; known: bf16\n");
}

// Of each stage's first blocks.
TEST(Recomputation, OfSomeBlocksIsExplained) {
  const std::string line =
      "--schedule 1f1b --stages 4 --microbatches 8 --model llama-3-8b --cluster dgx-h100 "
      "--recompute ";
  const Json layers = json_of(line + "full:3 --explain")["explanation"]["layers"];
  EXPECT_EQ(layers[1]["name"], "block");
  EXPECT_EQ(layers[1]["count"], 12);
  EXPECT_EQ(layers[2]["name"], "block, kept");
  EXPECT_EQ(layers[2]["count"], 20);
  const auto hardware_flops = [&](const char* blocks) {
    return json_of(line + blocks + " --explain")["explanation"]["recomputed_flops"].get<double>();
  };
  EXPECT_DOUBLE_EQ(hardware_flops("full:3") / hardware_flops("full"), 12. / 32);
  // More of them are offered, and no command that would be refused.
  const std::string text = output_of(
      "--schedule 1f1b --stages 2 --microbatches 8 --model llama-3-70b --cluster dgx-h100 "
      "--tensor-parallel 8 --recompute full:3");
  EXPECT_NE(text.find("full recomputation"), std::string::npos) << text;
  EXPECT_EQ(text.find("pipesim partition"), std::string::npos) << text;
}

// A candidate that can't be says why, and is left out.
TEST(Refused, CandidatesAreLeftOut) {
  const Json rows = json_of(
      "schedules --compare --stages 8 --microbatches 8 --model gpt2-small --cluster "
      "dgx-a100")["rows"];
  int without = 0;
  for (const Json& row : rows) {
    if (row["virtual_stages"] != 2) continue;
    ++without;
    const auto error = row["error"].get<std::string>();
    const bool few_layers = error.find("fewer than the 16 virtual stages") != std::string::npos;
    EXPECT_TRUE(few_layers || row["schedule"] == "dualpipe-v")
        << error;  // which wants microbatches
  }
  EXPECT_GE(without, 3);
}

}  // namespace
}  // namespace pipesim
