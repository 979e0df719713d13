// Costs from a model on a cluster, as a user asks for them: what pipesim
// prints, explains and refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/cost/hardware/cluster.h"
#include "sim/cost/model.h"
#include "tests/command.h"
#include "tests/files.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::Outcome;

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> result;
  for (std::string word; in >> word;) result.push_back(word);
  return result;
}

Outcome call(const std::string& line, const std::vector<std::string>& environment = {}) {
  return testing::pipesim(words(line), environment);
}

std::string output_of(const std::string& line, const std::vector<std::string>& environment = {}) {
  const Outcome outcome = call(line, environment);
  EXPECT_EQ(outcome.status, 0) << line << "\n" << outcome.err;
  EXPECT_EQ(outcome.err, "") << line;
  return outcome.out;
}

Json json_of(const std::string& line) { return Json::parse(output_of(line + " --json")); }

// The report on one line, so that it may wrap anywhere.
std::string unwrapped(const std::string& text) {
  std::string out;
  for (const std::string& word : words(text)) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  if (at != std::string::npos) text.replace(at, what.size(), with);
  return text;
}

const std::string schedule = "--schedule 1f1b --stages 4 --microbatches 8";
const std::string small = schedule + " --model gpt2-small --cluster dgx-a100";
// 175 billion parameters on 64 devices, without their last memory.
const std::string large =
    "--schedule 1f1b --stages 8 --microbatches 64 --tensor-parallel 8 --model gpt3-175b "
    "--cluster dgx-a100";

constexpr double peak_of_a100 = 312e12;

// 72BLsh^2(1+s/6h+V/12hL), of so many sequences.
double gpt_flops(double sequences, double s, double h, double blocks, double vocabulary) {
  return 72 * sequences * blocks * s * h * h * (1 + s / (6 * h) + vocabulary / (12 * h * blocks));
}

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
                                    {"sequence_parallel", false},
                                    {"recompute", "none"},
                                    {"attention", "unfused"},
                                    {"precision", "bf16"},
                                    {"zero", 1},
                                    {"shard_over", nullptr},
                                    {"gradient_bytes", 2},
                                    {"bucket_bytes", nullptr},
                                    {"tensor_overlap", true},
                                    {"software_factor", 1.0}}));
  EXPECT_EQ(json["fits"], true);
  for (const Json& rank : json["ranks"]) EXPECT_EQ(rank["fits"], true);
  EXPECT_FALSE(json.contains("explanation"));
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
  EXPECT_NE(json_of(small)["ranks"], json_of(small + " --layout 5,3,3,3")["ranks"]);
}

// ---- Explained

const std::vector<std::string> explained_lines{
    small,
    small + " --recompute full --micro-batch-size 3",
    "--schedule zb-h1 --stages 4 --microbatches 9 --model gpt2-small --cluster dgx-a100 "
    "--tensor-parallel 2 --recompute selective --data-parallel 4 --zero 2",
    "--schedule interleaved --stages 3 --virtual-stages 2 --microbatches 6 --model gpt2-small "
    "--cluster vtrain-a100 --tensor-parallel 4 --sequence-parallel",
    "--schedule gpipe --stages 4 --microbatches 4 --model gpt2-small --cluster dgx-a100 "
    "--tensor-parallel 2 --p2p fifo",
    "--schedule " + testing::golden("dualpipev_4rank_10mb.csv") +
        " --model gpt2-small --cluster dgx-a100",
    "--schedule interleaved-zb --stages 2 --microbatches 4 --model llama-3-8b --cluster dgx-h100 "
    "--sequence-length 1024 --recompute selective",
};

std::int64_t sum_of(const Json& numbers) {
  std::int64_t sum = 0;
  for (const Json& number : numbers) sum += number.get<std::int64_t>();
  return sum;
}

TEST(Explanation, TimesSumToWhatRanksDo) {
  for (const std::string& line : explained_lines) {
    const Json json = json_of(line + " --explain");
    const Json& explained = json["explanation"];
    // The other way round: all layers, each as often as there are microbatches.
    std::map<std::string, std::int64_t> of_layers;
    int layers = 0;
    for (const Json& kind : explained["layers"]) {
      layers += kind["count"].get<int>();
      for (const char* pass : {"forward_ns", "backward_ns"}) {
        for (const auto& [use, ns] : kind[pass].items()) {
          of_layers[use] += kind["count"].get<std::int64_t>() * ns.get<std::int64_t>() *
                            json["microbatches"].get<std::int64_t>();
        }
      }
    }
    EXPECT_EQ(layers, find_model(json["training"]["model"]).layers());
    for (std::size_t r = 0; r < json["ranks"].size(); ++r) {
      const Json& time = explained["ranks"][r]["time_ns"];
      EXPECT_EQ(sum_of(time), json["ranks"][r]["busy_ns"]) << line;
      EXPECT_EQ(time["beside_transfers"], 0) << line;
      EXPECT_GT(time["messages"], 0);
      EXPECT_GT(time["optimizer"], 0);
      for (auto& [use, ns] : of_layers) ns -= time[use].get<std::int64_t>();
    }
    for (const auto& [use, ns] : of_layers) EXPECT_EQ(ns, 0) << line << " " << use;
  }
}

TEST(Explanation, MemorySumsToThePeak) {
  for (const std::string& line : explained_lines) {
    const Json json = json_of(line + " --explain");
    const std::int64_t memory = find_device(json["training"]["device"]).memory_bytes;
    EXPECT_EQ(json["explanation"]["memory_bytes"], memory);
    for (std::size_t r = 0; r < json["ranks"].size(); ++r) {
      const Json& rank = json["explanation"]["ranks"][r];
      const std::int64_t peak = json["ranks"][r]["peak_memory_bytes"];
      EXPECT_EQ(sum_of(rank["memory_bytes"]), peak) << line;
      EXPECT_EQ(rank["left_bytes"], memory - peak) << line;
      const bool computes_again = json["training"]["recompute"] != "none";
      EXPECT_EQ(rank["workspace_bytes"].get<std::int64_t>() > 0, computes_again) << line;
    }
  }
}

const Json& block_of(const Json& json) {
  for (const Json& kind : json["explanation"]["layers"]) {
    if (kind["name"] == "block") return kind;
  }
  throw std::runtime_error("no block");
}

TEST(Explanation, WhatIsComputedAgainTakesAForward) {
  const Json json = json_of(small + " --recompute full --tensor-parallel 2 --explain");
  const Json& block = block_of(json);
  // Each use is rounded by itself.
  EXPECT_NEAR(block["backward_ns"]["computed_again"].get<double>(),
              static_cast<double>(sum_of(block["forward_ns"])), 10);
  EXPECT_EQ(block_of(json_of(small + " --explain"))["backward_ns"]["computed_again"], 0);
  // Of FLOPs a block's forward: a third of what it needs.
  const double again = 12 * 8 * (24 * 1024. * 768 * 768 + 4. * 1024 * 1024 * 768);
  EXPECT_DOUBLE_EQ(json["explanation"]["recomputed_flops"].get<double>(), again);
  const double needed = gpt_flops(8, 1024, 768, 12, 50257);
  EXPECT_NEAR(json["explanation"]["hfu"].get<double>() / json["mfu"].get<double>(),
              1 + again / needed, 1e-12);
  const Json selective = json_of(small + " --recompute selective --explain");
  EXPECT_DOUBLE_EQ(selective["explanation"]["recomputed_flops"].get<double>(),
                   12 * 8 * 4. * 1024 * 1024 * 768);
}

TEST(Explanation, ReductionsHideOnlyWhereABackwardIsWhole) {
  const std::string line =
      " --stages 4 --microbatches 8 --model gpt2-small --cluster dgx-a100 "
      "--tensor-parallel 4 --micro-batch-size 4 --explain";
  const auto hidden = [](const Json& json) {
    return block_of(json)["backward_ns"]["hidden_reduction"].get<std::int64_t>();
  };
  EXPECT_LT(hidden(json_of("--schedule 1f1b" + line)), 0);
  EXPECT_EQ(hidden(json_of("--schedule 1f1b --tensor-overlap off" + line)), 0);
  EXPECT_EQ(hidden(json_of("--schedule zb-h1" + line)), 0);
}

// A device whose compute is slower beside transfers.
TEST(Explanation, SlowerBesideTransfers) {
  const testing::TemporaryFolder folder;
  write_file(folder / "device.json", replaced(output_of("devices a100-sxm-80gb"), "\"software\": {",
                                              "\"software\": {\"compute_slowdown\": 0.5,"));
  write_file(folder / "cluster.json",
             replaced(output_of("clusters dgx-a100"), "\"a100-sxm-80gb\"", "\"./device.json\""));
  const Json json = json_of(schedule + " --model gpt2-small --explain --cluster " +
                            (folder / "cluster.json") + " --micro-batch-size 8");
  std::int64_t slower = 0;
  for (std::size_t r = 0; r < 4; ++r) {
    const Json& time = json["explanation"]["ranks"][r]["time_ns"];
    EXPECT_EQ(sum_of(time), json["ranks"][r]["busy_ns"]);
    EXPECT_GE(time["beside_transfers"], 0);
    slower += time["beside_transfers"].get<std::int64_t>();
  }
  EXPECT_GT(slower, 0);
}

TEST(Explanation, NamesWhatIsNotVerified) {
  const Device device = find_device("a100-sxm-80gb");
  const Json of_node = json_of(small + " --explain")["explanation"]["unverified"];
  for (const Json& key : of_node["device"]) {
    EXPECT_NE(std::ranges::find(device.unverified, key.get<std::string>()),
              device.unverified.end());
  }
  EXPECT_FALSE(of_node["device"].empty());
  // What lies between nodes counts only where there are several.
  const auto of_network = [](const Json& unverified) {
    return std::ranges::count_if(unverified["cluster"], [](const Json& key) {
      return key.get<std::string>().starts_with("network.");
    });
  };
  EXPECT_EQ(of_network(of_node), 0);
  const Json of_nodes = json_of(small + " --devices 32 --explain")["explanation"]["unverified"];
  EXPECT_GT(of_network(of_nodes), 0);
  const std::string text = unwrapped(output_of(small + " --devices 32 --explain"));
  EXPECT_NE(text.find("Assumed, not verified: of a100-sxm-80gb "), std::string::npos) << text;
  for (const Json& key : of_nodes["cluster"]) {
    EXPECT_NE(text.find(key.get<std::string>()), std::string::npos) << key;
  }
}

// Layers that are given by times alone have no FLOPs to tell.
TEST(Explanation, ListedLayers) {
  const testing::TemporaryFolder folder;
  const std::string head =
      R"({"format":"pipesim-model","version":1,"name":"tower","architecture":"layers","layers":[)"
      R"({"name":"stem","parameters":1000,"forward_flops":1e12,"output_bytes":1000,"repeat":3},)";
  write_file(folder / "flops.json", head + R"({"name":"top","forward_flops":2e12}]})");
  write_file(folder / "times.json", head + R"({"name":"top","forward_ns":3000000}]})");
  const std::string line =
      "--schedule 1f1b --stages 2 --microbatches 4 --micro-batch-size 2 --cluster dgx-a100 "
      "--explain --model " +
      folder.path().string();
  const Json flops = json_of(line + "/flops.json");
  const double seconds = flops["makespan_ns"].get<double>() * 1e-9;
  EXPECT_NEAR(flops["mfu"].get<double>() / (3 * 5e12 * 8 / (2 * peak_of_a100 * seconds)), 1, 1e-12);
  EXPECT_DOUBLE_EQ(flops["tokens_per_second"].get<double>(), 8 / seconds);
  const Json times = json_of(line + "/times.json");
  EXPECT_EQ(times["mfu"], nullptr);
  EXPECT_EQ(times["explanation"]["layers"][0]["count"], 3);
  EXPECT_EQ(times["explanation"]["layers"][1]["forward_ns"]["listed"], 6'000'000);
  const std::string text = unwrapped(output_of(line + "/times.json"));
  EXPECT_NE(text.find(" samples/s "), std::string::npos) << text;
  EXPECT_NE(text.find("tower does not say its FLOPs."), std::string::npos) << text;
}

// ---- For people

TEST(ModelReport, VerdictNamesWhatRunsWhere) {
  const Json json = json_of(large);
  const std::string text = unwrapped(output_of(large));
  const std::string verdict =
      "gpt3-175b on 64 a100-sxm-80gb of dgx-a100, 1F1B, 8 stages, "
      "64 microbatches: " +
      format_time(json["makespan_ns"]) + ", of which ";
  EXPECT_TRUE(text.starts_with(verdict)) << text;
  const std::string rate = format_count(std::llround(json["tokens_per_second"].get<double>())) +
                           " tokens/s, " +
                           std::to_string(std::lround(json["mfu"].get<double>() * 100)) + " % MFU";
  EXPECT_NE(text.find(rate), std::string::npos) << text;
}

// What is proposed is what one gets.
TEST(ModelReport, RemediesAreComputed) {
  const std::string text = unwrapped(output_of(large));
  EXPECT_NE(text.find("memory does not fit: 3 of 8 ranks (0-2) exceed 79.2 GiB; rank 0 needs "),
            std::string::npos)
      << text;
  const std::int64_t now = json_of(large)["makespan_ns"];
  const std::pair<const char*, const char*> remedies[] = {
      {"fused attention", " --attention fused"},
      {"selective recomputation", " --recompute selective"},
      {"sequence parallelism", " --sequence-parallel"}};
  const std::size_t from = text.find("would fit with ");
  ASSERT_NE(from, std::string::npos) << text;
  for (const auto& [what, flag] : remedies) {
    const Json json = json_of(large + flag);
    EXPECT_EQ(json["fits"], true) << flag;
    const double share = json["makespan_ns"].get<double>() / static_cast<double>(now) - 1;
    const std::string want = std::string(what) + " (" + format_bytes(json["peak_memory_bytes"]) +
                             ", " + std::to_string(std::lround(std::abs(share) * 100)) +
                             (share > 0 ? " % slower)" : " % faster)");
    EXPECT_NE(text.find(want, from), std::string::npos) << want << "\n" << text;
  }
  // Where nothing helps enough, what helps most.
  const std::string hopeless = unwrapped(output_of(large + " --memory-cap 1GiB"));
  EXPECT_NE(hopeless.find("memory does not fit: 8 of 8 ranks exceed 1.0 GiB; "), std::string::npos);
  EXPECT_NE(hopeless.find("no single change makes it fit; full recomputation ("), std::string::npos)
      << hopeless;
}

TEST(ModelReport, SaysWhatABackwardHoldsBeside) {
  const std::string text = unwrapped(output_of(small + " --recompute full"));
  EXPECT_NE(text.find("beside that, up to "), std::string::npos) << text;
  EXPECT_EQ(output_of(small).find("beside that"), std::string::npos);
  // With a cap between the peak and both together it says so.
  const Json json = json_of(small + " --recompute full --micro-batch-size 8 --explain");
  const std::int64_t peak = json["peak_memory_bytes"];
  const std::string tight = unwrapped(output_of(
      small + " --recompute full --micro-batch-size 8 --memory-cap " + std::to_string(peak) + "B"));
  EXPECT_NE(tight.find("memory fits: "), std::string::npos);
  EXPECT_NE(tight.find("with which rank "), std::string::npos) << tight;
}

TEST(ModelReport, FitsTheTerminal) {
  std::vector<std::string> lines{
      large + " --explain --recompute selective",
      small + " --explain --layout 5,4,1,4 --memory-cap 2GiB",
      "--schedule zb-h2 --stages 40 --microbatches 80 --model gpt3-175b --cluster dgx-a100 "
      "--tensor-parallel 8 --explain",
      "--schedule interleaved --stages 12 --microbatches 24 --model gpt3-175b --cluster "
      "dgx-a100 --tensor-parallel 4 --p2p fifo --explain",
      "schedules --compare --stages 4 --microbatches 8,16 --model gpt2-small --cluster dgx-a100",
      "models",
      "clusters",
      "devices"};
  for (const char* columns : {"80", "200"}) {
    for (const std::string& line : lines) {
      std::istringstream in(output_of(line, {std::string("COLUMNS=") + columns}));
      for (std::string text; std::getline(in, text);) {
        EXPECT_LE(text.size(), std::stoul(columns)) << line << "\n" << text;
        EXPECT_FALSE(text.ends_with(' ')) << '"' << text << '"';
      }
    }
  }
}

// The tables have the numbers of the JSON.
TEST(ModelReport, TablesShowTheSums) {
  const Json json = json_of(small + " --explain");
  std::istringstream in(output_of(small + " --explain"));
  bool in_ranks = false;
  int found = 0;
  for (std::string line; std::getline(in, line);) {
    if (line == "an iteration of each rank") in_ranks = true;
    if (!in_ranks || !(line.starts_with("busy ") || line.starts_with("iteration "))) continue;
    std::istringstream cells(line);
    std::string label;
    double ms = 0;
    double percent = 0;
    ASSERT_TRUE(cells >> label >> ms >> percent) << line;
    const std::int64_t want = label == "busy" ? json["ranks"][0]["busy_ns"] : json["makespan_ns"];
    EXPECT_NEAR(ms, static_cast<double>(want) / 1e6, 0.0006);
    EXPECT_NEAR(percent, 100 * static_cast<double>(want) / json["makespan_ns"].get<double>(), 0.06);
    ++found;
  }
  EXPECT_EQ(found, 2);
}

TEST(ModelReport, IsTheSameToTheByte) {
  for (const char* mode : {" --explain", " --explain --json"}) {
    EXPECT_EQ(output_of(large + mode), output_of(large + mode));
  }
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
  EXPECT_NE(text.find("! more than the 79.2 GiB of a100-sxm-80gb."), std::string::npos) << text;
}

TEST(ModelCosts, ATraceReadsBack) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "a.json.gz";
  EXPECT_EQ(output_of(small + " --tensor-parallel 2 --devices 32 --quiet --trace " + path), "");
  const std::string text = output_of("compare " + path + " " + path);
  EXPECT_TRUE(text.starts_with("The prediction is exact: ")) << text;
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

// ---- What can't be

TEST(Refused, InOneSentence) {
  const std::string both = " --model gpt2-small --cluster dgx-a100";
  const std::string known_clusters_text = [] {
    std::string names;
    for (const std::string& name : known_clusters()) names += (names.empty() ? "" : ", ") + name;
    return names;
  }();
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
       "gpt2-small has 12 blocks, fewer than the 16 virtual stages: a stage needs at least one; "
       "nearest valid: 12 virtual stages"},
      {both + " --devices 10",
       "--devices 10: 4 pipeline ranks x 1 tensor-parallel are 4, which must divide it; nearest "
       "valid: 8 and 12"},
      {both + " --devices 3",
       "--devices 3: 4 pipeline ranks x 1 tensor-parallel are 4, which must divide it; nearest "
       "valid: 4"},
      {both + " --devices 8 --data-parallel 3",
       "--devices 8: 4 pipeline ranks x 1 tensor-parallel x 3 data-parallel are 12; nearest "
       "valid: 12"},
      {both + " --data-parallel 999999999",
       "4 pipeline ranks x 1 tensor-parallel x 999999999 data-parallel are more than 1000000000 "
       "devices; use fewer"},
      {both + " --zero 4",
       "--zero 4: there are stages 0 (nothing split), 1 (optimizer), 2 (and gradients) and 3 (and "
       "weights)"},
      {both + " --zero x", "--zero: 'x' is not a whole number; give 0, 1, 2 or 3"},
      {both + " --precision fp64",
       "--precision: unknown precision 'fp64'; known, nearest first: fp32, fp16, fp8, bf16, tf32"},
      {both + " --precision fp8",
       "--precision fp8: a100-sxm-80gb gives no rate for it; there are fp32, tf32, fp16, bf16"},
      {both + " --sequence-length 2048",
       "--sequence-length 2048: gpt2-small has positions for 1024 tokens; the longest valid: 1024"},
      {both + " --sequence-parallel",
       "--sequence-parallel: splits what tensor parallelism leaves whole; give --tensor-parallel "
       "of more than 1 too"},
      {both + " --shard-over 2", "--shard-over: needs something to split; give --zero 1, 2 or 3"},
      {both + " --recompute ful", "--recompute: unknown value 'ful'; known: none, selective, full"},
      {both + " --attention flash", "--attention: unknown value 'flash'; known: fused, unfused"},
      {both + " --gradient-bytes 3", "--gradient-bytes: unknown value '3'; known: 2, 4"},
      {both + " --tensor-overlap yes", "--tensor-overlap: unknown value 'yes'; known: on, off"},
      {both + " --bucket-bytes 0B",
       "--bucket-bytes: a bucket of 0 bytes holds nothing; give its size"},
      {both + " --software-factor nan",
       "--software-factor: 'nan' is no factor between 0.01 and 100; give a number like 0.9"},
      {both + " --micro-batch-size 9999999",
       "--micro-batch-size 9999999 x --sequence-length 1024: too many tokens for one microbatch; "
       "use fewer or shorter sequences"},
      {both + " --micro-batch-size 0", "--micro-batch-size: 0 must be 1 or more"},
      {both + " --layout 3,3,3,3",
       "--layout: 12 layers on 4 virtual stages, but gpt2-small has 14 layers (embedding and head "
       "included) and the schedule 4 virtual stages"},
      {" --explain", "--explain: only a model says what time and memory are for; give --model"},
  };
  for (const auto& [flags, message] : cases) {
    const std::string stages = flags.find("--stages") == std::string::npos ? " --stages 4" : "";
    const std::string line = "--schedule 1f1b --microbatches 8" + stages + flags;
    const Outcome outcome = call(line);
    EXPECT_EQ(outcome.status, 2) << line;
    EXPECT_EQ(outcome.out, "") << line;
    EXPECT_EQ(outcome.err, "pipesim: " + message + "\n") << line;
  }
}

void expect_refused(const std::string& line, const std::string& part) {
  testing::expect_one_sentence(call(line), "pipesim", line, 2, part);
}

TEST(Refused, UnknownNamesNearestFirst) {
  expect_refused(schedule + " --cluster dgx-a100", "--model is missing: what is trained on the ");
  expect_refused(schedule + " --model gpt2-smal --cluster dgx-a100",
                 "unknown model 'gpt2-smal'; known, nearest first: gpt2-small, ");
  expect_refused(schedule + " --model gpt2-small --cluster dgx-a10",
                 "unknown cluster 'dgx-a10'; known, nearest first: dgx-a100, ");
  expect_refused("models gpt2-smal", "unknown model 'gpt2-smal'; known, nearest first: gpt2-small");
  expect_refused("clusters dgxa100", "unknown cluster 'dgxa100'; known, nearest first: dgx-a100");
  expect_refused("devices a100-sxm-80",
                 "unknown device 'a100-sxm-80'; known, nearest first: a100-sxm-80gb");
  expect_refused("schedules --model gpt2-small", "--model belongs to --compare; add it");
  expect_refused("--model gpt2-small models", "--model stands before models");
}

TEST(Refused, BrokenFilesWithTheirPlace) {
  const testing::TemporaryFolder folder;
  const auto refused = [&](const std::string& model, const std::string& cluster,
                           const std::string& message) {
    write_file(folder / "m.json", model);
    write_file(folder / "c.json", cluster);
    expect_refused(
        schedule + " --model " + (folder / "m.json") + " --cluster " + (folder / "c.json"),
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
  expect_refused(schedule + " --cluster dgx-a100 --model none.json", "cannot read 'none.json'");
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
    EXPECT_NE(row["error"].get<std::string>().find("fewer than the 16 virtual stages"),
              std::string::npos);
  }
  EXPECT_GE(without, 3);
}

}  // namespace
}  // namespace pipesim
