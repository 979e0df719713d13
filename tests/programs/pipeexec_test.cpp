// pipeexec driven as a user would, ranks as threads: what it prints, writes,
// refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/command.h"
#include "tests/exec_calls.h"
#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::expect_pipeexec_refuses;
using testing::golden;
using testing::Outcome;
using testing::pipeexec;
using testing::pipeexec_json;

// Small and quick, but with every kind of layer.
const std::string tiny = " --micro-batch-size 1 --sequence-length 8";
const std::string good = "--schedule 1f1b --stages 2 --microbatches 3" + tiny;

TEST(Pipeexec, PrintsTheContractsKeys) {
  const Json json = pipeexec_json(good + " --iterations 3 --warmup 2");
  EXPECT_EQ(json["format"], "pipeexec-result");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["schedule"], "1f1b");
  EXPECT_EQ(json["stages"], 2);
  EXPECT_EQ(json["microbatches"], 3);
  ASSERT_EQ(json["losses"].size(), 3);
  ASSERT_EQ(json["warmup_losses"].size(), 2);
  EXPECT_NEAR(json["warmup_losses"][0].get<double>(), std::log(256), 0.5);
  const auto times = json["iteration_times_ns"].get<std::vector<std::int64_t>>();
  ASSERT_EQ(times.size(), 3);
  EXPECT_GT(*std::ranges::min_element(times), 0);
  EXPECT_EQ(std::ranges::count(times, json["iteration_ns"].get<std::int64_t>()), 1);
  const double rate = 3 * 8 * 1e9 / json["iteration_ns"].get<double>();
  EXPECT_NEAR(json["tokens_per_second"].get<double>(), rate, 1e-6 * rate);
  EXPECT_TRUE(json["verify"].is_null());
  ASSERT_EQ(json["ranks"].size(), 2);
  for (int rank = 0; rank < 2; ++rank) {
    const Json& own = json["ranks"][static_cast<std::size_t>(rank)];
    EXPECT_EQ(own["rank"], rank);
    EXPECT_EQ(own["peak_activation_chunks"], 2 - rank);
    EXPECT_EQ(own["clock_offset_ns"], 0);
    EXPECT_EQ(own["clock_uncertainty_ns"], 0);
    std::int64_t sum = 0;
    for (const auto& [use, bytes] : own["memory_bytes"].items()) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(own["peak_memory_bytes"], sum);
    const Json& bubble = own["bubble_ns"];
    std::int64_t idle = 0;
    for (const auto& [cause, time] : bubble.items()) idle += time.get<std::int64_t>();
    EXPECT_EQ(idle + own["busy_ns"].get<std::int64_t>(), json["iteration_ns"]);
  }
}

TEST(Pipeexec, VerifiesTheDefaultModel) {
  for (const char* schedule : {"1f1b", "interleaved-zb"}) {
    const Json json =
        pipeexec_json(std::string("--stages 4 --microbatches 8 --iterations 2 --verify") +
                      " --schedule " + schedule);
    EXPECT_EQ(json["verify"],
              Json({{"bitwise", true}, {"max_abs_error", 0}, {"max_rel_error", 0}}));
  }
}

TEST(Pipeexec, VerifiesALlama) {
  for (const char* flags : {"1f1b --stages 2", "zb-h1 --stages 3 --recompute full",
                            "1f1b --stages 2 --data-parallel 2 --zero 2"}) {
    const Json json = pipeexec_json("--model llama-mini --microbatches 4 --iterations 2 --verify" +
                                    tiny + " --schedule " + flags);
    EXPECT_EQ(json["verify"], Json({{"bitwise", true}, {"max_abs_error", 0}, {"max_rel_error", 0}}))
        << flags;
  }
}

TEST(Pipeexec, FusedAttentionKeepsNoScores) {
  const std::string line =
      "--schedule 1f1b --stages 2 --microbatches 2 --micro-batch-size 1 "
      "--sequence-length 128 --iterations 1 --warmup 0 --verify";
  const Json kept = pipeexec_json(line);
  const Json fused = pipeexec_json(line + " --attention fused");
  EXPECT_EQ(kept["attention"], "unfused");
  EXPECT_EQ(pipeexec_json(good + " --attention unfused")["attention"], "unfused");
  EXPECT_EQ(fused["attention"], "fused");
  EXPECT_EQ(fused["verify"]["bitwise"], true);
  EXPECT_NEAR(fused["losses"][0].get<double>(), kept["losses"][0].get<double>(), 1e-5);
  const auto activations = [](const Json& json) {
    return json["ranks"][0]["memory_bytes"]["activations"].get<std::int64_t>();
  };
  // Of two microbatches, four blocks and four heads of each, all but two numbers for each row.
  EXPECT_EQ(activations(kept) - activations(fused), 2 * 4 * 4 * 128 * (128 - 2) * 4);
  EXPECT_NE(
      pipeexec(good + " --attention fused").out.find("attention is fused: it keeps no scores"),
      std::string::npos);
}

TEST(Pipeexec, ResultsDependOnTheSeedAlone) {
  const auto losses = [](const std::string& line) { return pipeexec_json(line)["losses"].dump(); };
  const std::string first = losses(good);
  EXPECT_EQ(losses(good), first);
  EXPECT_EQ(losses(good + " --eager-limit 0"), first);
  for (const char* again :
       {"full", "full:1", "full:3", "selective", "norms", "attention,norms,activation"}) {
    EXPECT_EQ(losses(good + " --recompute " + again), first) << again;
  }
  EXPECT_EQ(losses("--schedule gpipe --stages 4 --microbatches 3" + tiny), first);
  EXPECT_NE(losses(good + " --seed 2"), first);
  EXPECT_NE(losses(good + " --learning-rate 0.01"), first);
}

TEST(Pipeexec, FirstBlocksOfStagesAloneGiveUpWhatTheyKeep) {
  const auto kept = [](const std::string& recompute) {
    return pipeexec_json(good + " --recompute " + recompute)["ranks"][0]["peak_memory_bytes"]
        .get<std::int64_t>();
  };
  const std::vector<std::int64_t> peaks{kept("none"), kept("full:1"), kept("full:2"),
                                        kept("full:3")};
  for (std::size_t i = 1; i < peaks.size(); ++i) EXPECT_LT(peaks[i], peaks[i - 1]) << i;
  EXPECT_EQ(kept("full:4"), kept("full"));
}

// The words are those that are read, in one order.
TEST(Pipeexec, SaysWhatIsComputedAgain) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "run.json";
  const std::string line = good + " --iterations 1 --warmup 0 --trace " + path + " --recompute ";
  for (const auto& [given, name, words] : {
           std::tuple("none", "none", ""),
           {"full", "full", "; activations recomputed"},
           {"full:2", "full:2", "; first 2 blocks of each recomputed"},
           {"attention", "selective", "; attention recomputed"},
           {"activation,norms", "norms,activation", "; norms and activation recomputed"},
       }) {
    EXPECT_EQ(pipeexec_json(line + given)["recompute"], name);
    EXPECT_EQ(Json::parse(read_file(path))["metadata"]["pipesim"]["recompute"], name);
    const Outcome outcome = pipeexec(line + given);
    EXPECT_NE(outcome.out.find(std::string("layers per virtual stage: 5,5") + words + "\n"),
              std::string::npos)
        << outcome.out;
  }
}

// Of a trace: every action of every measured iteration once, its layers
// within it, and counters that come to the peaks that the result has.
TEST(Pipeexec, WritesWhatWasMeasured) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "run.json";
  const Json result =
      pipeexec_json("--schedule interleaved-zb --stages 2 --microbatches 3 --iterations 3" + tiny +
                    " --recompute full --trace " + path);
  const Json trace = Json::parse(read_file(path));
  const Json& meta = trace["metadata"]["pipesim"];
  EXPECT_EQ(meta["source"], "measured");
  EXPECT_EQ(meta["iterations"], 3);
  EXPECT_EQ(meta["warmup_iterations"], 2);
  EXPECT_EQ(meta["iteration_ns"], result["iteration_times_ns"]);
  EXPECT_EQ(meta["layers"].size(), 10);
  EXPECT_EQ(meta["rank_of_stage"], Json({0, 1, 0, 1}));

  std::map<std::pair<int, std::string>, int> seen;  // (iteration, action) -> how often
  std::map<int, std::pair<double, double>> parent;  // pid -> the action that is open
  std::map<int, int> chunks;
  std::set<std::string> layer_kinds;
  double largest_end = 0;
  int flows = 0;
  for (const Json& event : trace["traceEvents"]) {
    const int pid = event["pid"];
    if (event["ph"] == "C" && event["name"] == "activations") {
      chunks[pid] = std::max(chunks[pid], event["args"]["chunks"].get<int>());
    }
    if (event["ph"] == "s") ++flows;
    if (event["ph"] != "X") continue;
    const double start = event["ts"];
    const double end = start + event["dur"].get<double>();
    EXPECT_GE(start, 0);
    if (event["cat"] == "layer") {
      EXPECT_GE(start, parent[pid].first - 1e-6) << event;
      EXPECT_LE(end, parent[pid].second + 1e-6) << event;
      layer_kinds.insert(event["args"]["kind"].get<std::string>() +
                         (event["args"].contains("again") ? " again" : ""));
      continue;
    }
    largest_end = std::max(largest_end, end);
    ++seen[{event["args"]["iteration"], event["name"]}];
    if (event["cat"] == "compute") parent[pid] = {start, end};
    EXPECT_GE(event["args"]["queued_ns"], 0) << event;
  }
  // 4 stages x 3 microbatches of F, I and W; both ends of 3 hops each way; a
  // reduction a stage; tied gradients, norm and step a rank.
  constexpr int actions = 4 * 3 * 3 + 2 * 2 * 3 * 3 + 4 + 3 * 2;
  EXPECT_EQ(seen.size(), 3 * actions);
  for (const auto& [action, times] : seen) EXPECT_EQ(times, 1) << action.second;
  EXPECT_EQ(layer_kinds, (std::set<std::string>{"F", "F again", "I", "W"}));
  EXPECT_EQ(flows, 3 * 2 * 3 * 3);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(chunks[rank + 1],
              result["ranks"][static_cast<std::size_t>(rank)]["peak_activation_chunks"]);
  }
  // Each begins where the one before ended, the first at 0.
  double sum = 0;
  for (const Json& time : result["iteration_times_ns"]) sum += time.get<double>();
  EXPECT_NEAR(largest_end * 1000, sum, 0.5);
}

TEST(Pipeexec, RunsReplicas) {
  const std::string line =
      "--schedule 1f1b --stages 2 --data-parallel 3 --global-batch 6 --iterations 2" + tiny;
  for (const std::string split :
       {"", " --zero 1", " --zero 2 --bucket-bytes 100kB", " --zero 3 --recompute full"}) {
    const Json json = pipeexec_json(line + split + " --verify");
    EXPECT_EQ(json["verify"]["bitwise"], true) << split;
    EXPECT_EQ(json["stages"], 2);
    EXPECT_EQ(json["microbatches"], 2);
    EXPECT_EQ(json["data_parallel"], 3);
    EXPECT_EQ(json["global_batch"], 6);
    ASSERT_EQ(json["ranks"].size(), 6);
    for (int rank = 0; rank < 6; ++rank) {
      const Json& own = json["ranks"][static_cast<std::size_t>(rank)];
      EXPECT_EQ(own["rank"], rank);
      EXPECT_EQ(own["pipeline"], rank / 3);  // Megatron's order
      EXPECT_EQ(own["data"], rank % 3);
      EXPECT_EQ(own["tensor"], 0);
      EXPECT_GT(own["busy_ns"], 0);
      EXPECT_GT(own["collective_ns"], 0);
      EXPECT_LE(own["exposed_collective_ns"], own["collective_ns"]);
    }
  }
}

// Both programs, and a comparison, by iterations that step.
TEST(Pipeexec, Accumulates) {
  const testing::TemporaryFolder folder;
  const std::string measured = folder / "measured.json";
  const std::string predicted = folder / "predicted.json";
  const std::string line = "--schedule 1f1b --stages 2 --microbatches 3 --accumulate 2";
  const Json json =
      pipeexec_json(line + " --iterations 5 --trace " + measured + tiny + " --verify");
  EXPECT_EQ(json["verify"]["bitwise"], true);
  EXPECT_EQ(json["accumulate"], 2);
  EXPECT_EQ(json["losses"].size(), 3);
  EXPECT_EQ(json["iteration_times_ns"].size(), 5);
  const Json trace = Json::parse(read_file(measured));
  EXPECT_EQ(trace["metadata"]["pipesim"]["accumulate"], 2);
  std::multiset<int> steps;
  for (const Json& event : trace["traceEvents"]) {
    if (event.value("name", "").ends_with("OPTIMIZER")) {
      steps.insert(int(event["args"]["iteration"]));
    }
  }
  EXPECT_EQ(steps, (std::multiset{1, 1, 3, 3, 4, 4}));

  const Outcome simulated = testing::call(line + " --trace " + predicted + " --json");
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_EQ(Json::parse(simulated.out)["iterations"], 2);
  const Outcome compared = testing::call("compare " + predicted + " " + measured + " --json");
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_GT(Json::parse(compared.out)["matched"], 0) << compared.out;
}

TEST(Pipeexec, WritesAllReplicas) {
  const testing::TemporaryFolder folder;
  const std::string trace = folder / "run.json";
  const Outcome outcome = pipeexec(
      "--schedule 1f1b --stages 2 --data-parallel 2 --microbatches 2 --iterations 3 "
      "--zero 3 --quiet --trace " +
      trace + tiny);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(read_file(trace));
  EXPECT_EQ(json["metadata"]["pipesim"]["data_parallel"], 2);
  EXPECT_EQ(json["metadata"]["pipesim"]["zero"], 3);
  std::map<std::string, std::set<int>> names;  // of processes
  std::map<int, std::multiset<std::string>> did;
  struct Exchange {
    std::int64_t came_ns = 0;  // to it, last
    std::vector<std::pair<std::int64_t, std::int64_t>> ends;
  };
  std::map<std::tuple<int, std::string, int>, Exchange> exchanges;
  for (const Json& event : json["traceEvents"]) {
    if (event["name"] == "process_name") names[event["args"]["name"]].insert(int(event["pid"]));
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["ts"], 0);
    const int replica = event["args"]["replica"];
    EXPECT_EQ(event["pid"], int(event["args"]["rank"]) * 2 + replica + 1);
    did[replica].insert(event["name"]);
    if (!event["args"].contains("occurrence") || event["args"]["kind"] == "RESHARD") continue;
    const auto ns = [](const Json& microseconds) {
      return std::llround(1e3 * double(microseconds));
    };
    const Json& args = event["args"];
    Exchange& own = exchanges[{args["iteration"], event["name"], args["occurrence"]}];
    const std::int64_t start_ns = ns(event["ts"]);
    own.ends.push_back({start_ns, start_ns + ns(event["dur"])});
    own.came_ns = std::max(own.came_ns, start_ns - std::int64_t(args["queued_ns"]));
  }
  // An exchange starts when the last replica has come to it.
  EXPECT_GT(exchanges.size(), 0);
  for (const auto& [key, exchange] : exchanges) {
    ASSERT_EQ(exchange.ends.size(), 2);
    for (const auto& [start_ns, end_ns] : exchange.ends) {
      EXPECT_EQ(start_ns, std::min(exchange.came_ns, end_ns));
    }
  }
  EXPECT_EQ(names, (std::map<std::string, std::set<int>>{{"rank 0 (pipeline 0, data 0)", {1}},
                                                         {"rank 1 (pipeline 0, data 1)", {2}},
                                                         {"rank 2 (pipeline 1, data 0)", {3}},
                                                         {"rank 3 (pipeline 1, data 1)", {4}}}));
  EXPECT_EQ(did.size(), 2);
  EXPECT_EQ(did[0], did[1]);
  EXPECT_GT(did[0].count("0UNSHARD"), 0);

  const auto report = [&](const std::string& more) {
    return testing::run_command({PIPESIM_COMMAND, "report", trace, "--replica", more});
  };
  const Outcome second = report("2");
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_NE(second.out.find("pipeline 2 of 2: ranks 1, 3; others by --replica 1"),
            std::string::npos)
      << second.out;
  testing::expect_one_sentence(report("3"), "pipesim", "report --replica 3", 2,
                               "has 2 replicas; give a number from 1 on");
}

// What can't be is refused by both programs in the same words.
TEST(Pipeexec, RefusesReplicasAsPipesimDoes) {
  const testing::TemporaryFolder folder;
  const std::string twice = folder / "twice.csv";
  write_file(twice, "0F0,0B0,0REDUCE_GRAD,0F1,0B1,0REDUCE_GRAD\n");
  const std::string gathers = folder / "gathers.csv";
  write_file(gathers, "0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n");
  const std::string both = "--schedule 1f1b --stages 2 ";
  const std::string model = " --model gpt2-small --cluster dgx-a100";
  for (const std::string& what : std::vector<std::string>{
           "--microbatches 4 --data-parallel 2 --zero 4",
           "--microbatches 4 --data-parallel 2 --zero two",
           "--microbatches 4 --data-parallel 4 --zero 1 --shard-over 3",
           "--microbatches 4 --data-parallel 2 --bucket-bytes 0",
           "--microbatches 4 --data-parallel 2 --zero 3 --gather always",
           "--schedule " + gathers + " --data-parallel 2 --zero 3 --gather once",
           "--microbatches 4 --data-parallel 0", "--data-parallel 2 --global-batch 7",
           "--data-parallel 2 --global-batch 8 --microbatches 4",
           "--data-parallel 3 --micro-batch-size 2 --global-batch 5",
           "--schedule " + twice + " --data-parallel 2",
           "--schedule " + twice + " --data-parallel 2 --zero 3 --shard-over 1"}) {
    const std::string line = what.starts_with("--schedule") ? what : both + what;
    const Outcome run = pipeexec(
        what.find("micro-batch-size") == std::string::npos ? line + " --micro-batch-size 1" : line);
    std::vector<std::string> words{PIPESIM_COMMAND};
    std::istringstream in(line + model);
    for (std::string word; in >> word;) words.push_back(word);
    const Outcome predicted = testing::run_command(words);
    EXPECT_EQ(run.status, 2) << line;
    EXPECT_EQ(predicted.status, 2) << line;
    const auto sentence = [](const std::string& text) { return text.substr(text.find(':')); };
    EXPECT_EQ(sentence(run.err), sentence(predicted.err)) << line;
  }
}

TEST(Pipeexec, RefusesShardsAsPipesimDoes) {
  const std::string both = "--schedule 1f1b --stages 2 --microbatches 4 --micro-batch-size 1 ";
  for (const std::string& what : std::vector<std::string>{
           "--model gpt-mini --tensor-parallel 3", "--model gpt-mini --tensor-parallel 8",
           "--model llama-mini --tensor-parallel 0", "--model gpt-mini --tensor-parallel 0",
           "--model mlp-mini --tensor-parallel 2",
           "--model gpt-mini --tensor-parallel 4 --sequence-parallel --sequence-length 62",
           "--model gpt-mini --tensor-parallel 4 --sequence-parallel --sequence-length 63"}) {
    const Outcome run = pipeexec(both + what);
    std::vector<std::string> words{PIPESIM_COMMAND};
    std::istringstream in(both + what + " --cluster dgx-a100");
    for (std::string word; in >> word;) words.push_back(word);
    const Outcome predicted = testing::run_command(words);
    EXPECT_EQ(run.status, 2) << what;
    EXPECT_EQ(predicted.status, 2) << what;
    const auto sentence = [](const std::string& text) { return text.substr(text.find(':')); };
    EXPECT_EQ(sentence(run.err), sentence(predicted.err)) << what;
  }
  const Outcome words = pipeexec(
      "--schedule 1f1b --stages 1 --microbatches 1 --model gpt2-small --tensor-parallel 2");
  EXPECT_EQ(words.status, 2);
  EXPECT_NE(words.err.find("--tensor-parallel 2: does not divide a vocabulary of 50257 of "
                           "gpt2-small; nearest valid: 1\n"),
            std::string::npos)
      << words.err;
}

TEST(Pipeexec, EmulatesWhatCostsSay) {
  const std::string emulated = "--device emulated --schedule 1f1b --stages 2 --microbatches 2";
  const Json wall = pipeexec_json(emulated + " --iterations 2");
  EXPECT_EQ(wall["device"], "emulated, wall pace");
  EXPECT_EQ(wall["pace"], "wall");
  EXPECT_TRUE(wall["losses"].empty());
  EXPECT_TRUE(wall["tokens_per_second"].is_null());
  std::int64_t both = 0;  // a late end of the first is the second's gain
  for (const Json& time : wall["iteration_times_ns"]) both += time.get<std::int64_t>();
  EXPECT_GE(both, 2 * 9'000'000);  // (m+p-1)(F+B)
  const Outcome anchored = pipeexec(emulated + " --pace anchored --iterations 2");
  EXPECT_EQ(anchored.status, 0) << anchored.err;
  EXPECT_NE(anchored.out.find("emulated, anchored pace"), std::string::npos) << anchored.out;
  EXPECT_EQ(anchored.out.find("loss"), std::string::npos);
}

TEST(Pipeexec, ReportsWithinTheWidth) {
  for (const std::size_t width : {80, 120, 200}) {
    const Outcome outcome = pipeexec(good + " --verify", {"COLUMNS=" + std::to_string(width)});
    EXPECT_EQ(outcome.status, 0);
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
    EXPECT_NE(outcome.out.find("1F1B, 2 ranks, 3 microbatches: median iteration "),
              std::string::npos);
    EXPECT_NE(outcome.out.find("weights equal one rank's bit for bit"), std::string::npos);
    EXPECT_NE(outcome.out.find("peak memory"), std::string::npos);
  }
  EXPECT_EQ(pipeexec(good + " --quiet").out, "");
}

TEST(Pipeexec, RunsScheduleFiles) {
  const Json json = pipeexec_json("--verify --iterations 1 --schedule " +
                                  golden("dualpipev_4rank_10mb.csv") + tiny);
  EXPECT_EQ(json["stages"], 4);
  EXPECT_EQ(json["virtual_stages"], 2);
  EXPECT_EQ(json["microbatches"], 10);
  EXPECT_EQ(json["verify"]["bitwise"], true);
}

TEST(Pipeexec, TrainsOnAnyText) {
  const testing::TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 3000; ++i) bytes += static_cast<char>(i * i % 251);
  write_file(folder / "bytes", bytes);
  const Json json = pipeexec_json(good + " --verify --data " + (folder / "bytes"));
  EXPECT_EQ(json["verify"]["bitwise"], true);
  EXPECT_NE(json["losses"], pipeexec_json(good)["losses"]);
}

TEST(Pipeexec, TrainsAModelFile) {
  const testing::TemporaryFolder folder;
  write_file(folder / "model.json",
             R"({"format": "pipesim-model", "version": 1, "architecture": "gpt", "blocks": 2,
                 "hidden_size": 8, "heads": 4, "kv_heads": 4, "experts": 1,
                 "vocabulary_size": 256, "max_sequence_length": 8})");
  const Json json = pipeexec_json(good + " --verify --model " + (folder / "model.json"));
  EXPECT_EQ(json["verify"]["bitwise"], true);
}

TEST(Pipeexec, ThreadsHaveNoSumsOfALibrary) {
  const std::string two = good + " --data-parallel 2 --reduce ";
  expect_pipeexec_refuses(two + "library", 2, "transport local has no sums of its own");
  expect_pipeexec_refuses(two + "fast", 2, "unknown reduction 'fast'");
  EXPECT_EQ(pipeexec_json(two + "ordered")["reduce"], "ordered");
}

TEST(Pipeexec, RefusesMoreBucketsThanMemoryHolds) {
  expect_pipeexec_refuses(
      "--schedule gpipe --stages 1 --microbatches 1 --data-parallel 2 --bucket-bytes 4B", 2,
      "--bucket-bytes 4: the 6.4 MiB of a stage's gradients make more than 1000000 buckets; give "
      "at least 7");
}

// In the words of pipesim, where that has the flag.
TEST(Pipeexec, WhatHasNoEffectIsAcceptedAndTold) {
  const std::string line = "--schedule 1f1b --stages 2 --microbatches 2 ";
  for (const std::string flag :
       {"--zero 1", "--bucket-bytes 1MB", "--gather pass", "--shard-over 1", "--sequence-parallel",
        "--tensor-overlap off", "--data-parallel 2 --shard-over 2",
        "--data-parallel 2 --zero 2 --gather once"}) {
    const Outcome run = pipeexec(line + "--iterations 1 --warmup 0 --quiet " + flag);
    const Outcome predicted = testing::run_command(testing::words(
        PIPESIM_COMMAND " --model gpt2-small --cluster dgx-a100 --quiet " + line + flag));
    EXPECT_EQ(run.status, 0) << flag << run.err;
    EXPECT_EQ(predicted.status, 0) << flag;
    EXPECT_NE(run.err.find(" has no effect: "), std::string::npos) << flag << run.err;
    EXPECT_EQ(run.err.substr(run.err.find(':')), predicted.err.substr(predicted.err.find(':')));
  }
  const Outcome reduce = pipeexec(good + " --reduce library");
  EXPECT_EQ(reduce.status, 0);
  EXPECT_EQ(reduce.err, "pipeexec: note: --reduce has no effect: there is one replica\n");
}

TEST(Pipeexec, RefusesInOneSentence) {
  const testing::TemporaryFolder folder;
  write_file(folder / "short.txt", "12345678");
  write_file(folder / "umlaut.txt", "a text long enough, with an umlaut: \xc3\xa4");
  write_file(folder / "model.json",
             R"({"format": "pipesim-model", "version": 1, "architecture": "gpt", "blocks": 2,
                 "hidden_size": 8, "heads": 3, "vocabulary_size": 99, "max_sequence_length": 8})");
  write_file(folder / "ascii.json",
             R"({"format": "pipesim-model", "version": 1, "architecture": "mlp", "blocks": 2,
                 "hidden_size": 8, "vocabulary_size": 128, "max_sequence_length": 8})");
  write_file(folder / "odd.json",
             R"({"format": "pipesim-model", "version": 1, "architecture": "llama", "blocks": 2,
                 "hidden_size": 12, "heads": 4, "mlp_size": 16, "vocabulary_size": 256,
                 "max_sequence_length": 8})");
  write_file(folder / "experts.json",
             R"({"format": "pipesim-model", "version": 1, "architecture": "gpt", "blocks": 2,
                 "hidden_size": 8, "heads": 4, "experts": 2, "experts_per_token": 1,
                 "vocabulary_size": 256, "max_sequence_length": 8})");
  write_file(folder / "listed.json",
             R"({"format": "pipesim-model", "version": 1, "name": "convolutions",
                 "architecture": "layers",
                 "layers": [{"name": "convolution", "forward_ns": 1, "repeat": 4}]})");
  expect_pipeexec_refuses("", 2, "--stages is missing");
  expect_pipeexec_refuses("--stages 2", 2, "--schedule is missing");
  expect_pipeexec_refuses("--schedule 1f1b --stages 2", 2, "--microbatches is missing");
  expect_pipeexec_refuses("--schedule 1f1b --microbatches 2", 2, "mpirun -n P");
  expect_pipeexec_refuses(good + " --schedule", 2, "--schedule");
  expect_pipeexec_refuses("--schedule 1f2b --stages 2 --microbatches 2", 2, "nearest first: 1f1b");
  expect_pipeexec_refuses("--schedule 1f1b --stages 11 --microbatches 2", 2,
                          "10 layers cannot fill 11");
  expect_pipeexec_refuses("--schedule 1f1b --stages 0 --microbatches 2", 2, "--stages");
  expect_pipeexec_refuses("--schedule 1f1b --stages 5000 --microbatches 2", 2, "at most 1024");
  expect_pipeexec_refuses("--schedule " + golden("zb1p_2rank_2stagep_compute.csv") + " --stages 3",
                          2, "has 2");
  expect_pipeexec_refuses(good + " --layout 5,6", 2, "--layout: 11 layers");
  expect_pipeexec_refuses(
      good + " --layout tttttt|tttt", 2,
      "--layout: layer 0 on virtual stage 0 is t, but is where gpt-mini has its "
      "embedding, E");
  expect_pipeexec_refuses(good + " --layout Ettttt|tttm", 2, "layer 9 on virtual stage 1 is m, ");
  expect_pipeexec_refuses(good + " --data " + (folder / "none.txt"), 2, "No such file");
  expect_pipeexec_refuses(good + " --data " + (folder / "short.txt"), 2,
                          "has 8 bytes, but a sequence of 8");
  expect_pipeexec_refuses(good + " --data " + folder.path().string(), 2, "Is a directory");
  expect_pipeexec_refuses(good + " --model gpt-minni", 2, "nearest first: gpt-mini");
  expect_pipeexec_refuses(
      good + " --attention fussed", 2,
      "--attention: unknown attention 'fussed'; known, nearest first: fused, unfused");
  expect_pipeexec_refuses(good + " --model mlp-mini --attention fused", 2,
                          "--attention: 'mlp-mini' has none; omit the flag");
  expect_pipeexec_refuses(good + " --model " + (folder / "none.json"), 2, "No such file");
  expect_pipeexec_refuses(good + " --model " + (folder / "model.json"), 2, "do not divide");
  expect_pipeexec_refuses(
      good + " --model mixtral-8x7b", 2,
      "can't train 'mixtral-8x7b': it lacks experts; give a gpt or llama without "
      "experts, or an mlp, or have ");
  expect_pipeexec_refuses(good + " --model " + (folder / "odd.json"), 2,
                          "4 heads of 3 numbers, but rotary positions turn pairs");
  expect_pipeexec_refuses(good + " --model " + (folder / "experts.json"), 2, "it lacks experts");
  expect_pipeexec_refuses(good + " --model " + (folder / "listed.json"), 2,
                          "can't train 'convolutions': listed layers are numbers");
  expect_pipeexec_refuses(
      good + " --model " + (folder / "ascii.json") + " --data " + (folder / "umlaut.txt"), 2,
      "vocabulary_size is 128");
  expect_pipeexec_refuses("--schedule 1f1b --stages 2 --microbatches 2 --sequence-length 257", 2,
                          "takes at most 256");
  expect_pipeexec_refuses(
      "--schedule 1f1b --stages 2 --microbatches 2 --micro-batch-size 1000000000", 2, "of which");
  expect_pipeexec_refuses(good + " --iterations 0", 2, "--iterations");
  expect_pipeexec_refuses(good + " --iterations 1000000000", 2, "iterations: needs about");
  expect_pipeexec_refuses(good + " --warmup -1", 2, "--warmup");
  expect_pipeexec_refuses(good + " --seed x", 2, "--seed");
  expect_pipeexec_refuses(good + " --learning-rate inf", 2, "--learning-rate");
  expect_pipeexec_refuses(
      good + " --recompute som", 2,
      "--recompute: unknown recomputation 'som'; known, nearest first: none, norms, "
      "mlp, full, shared, latent, products, experts, selective, attention, activation");
  for (const char* part : {"norms,products", "mlp"}) {
    expect_pipeexec_refuses(good + " --recompute " + part, 2,
                            "products and whole modules are computed again in predictions only");
  }
  expect_pipeexec_refuses(good + " --model gpt-mini --tensor-parallel 2 --tensor-overlap maybe", 2,
                          "--tensor-overlap: unknown value 'maybe'; known: on, off");
  expect_pipeexec_refuses(good + " --recompute norms,norms", 2, "norms is given twice; give");
  expect_pipeexec_refuses(good + " --recompute full,activation", 2,
                          "full excludes all others; give");
  expect_pipeexec_refuses(
      good + " --model mlp-mini --recompute attention", 2,
      "--recompute selective: mlp-mini has no attention to compute again; nearest "
      "valid: none and full");
  expect_pipeexec_refuses(good + " --model mlp-mini --recompute norms,activation", 2,
                          "mlp-mini has no norms to compute again");
  expect_pipeexec_refuses(good + " --precision fp16", 2, "known, nearest first: fp32, bf16");
  expect_pipeexec_refuses(good + " --precision bf16", 2, "device cpu computes in fp32 alone");
  expect_pipeexec_refuses(good + " --device gpu", 2,
                          "unknown device 'gpu'; known, nearest first: cpu");
  expect_pipeexec_refuses(good + " --device cuda:first", 2, "write cuda:0 for the first");
  expect_pipeexec_refuses(good + " --device hip:", 2, "write hip:0 for the first");
  expect_pipeexec_refuses(good + " --device cuda:-1", 2, "has no GPU number");
  expect_pipeexec_refuses(good + " --transport ucx", 2, "unknown transport 'ucx'");
  expect_pipeexec_refuses(good + " --eager-limit 3", 2, "has no unit");
  expect_pipeexec_refuses(good + " --chekpoint x", 2, "unknown flag '--chekpoint'");
  expect_pipeexec_refuses(good + " --trace " + (folder / "no/run.json"), 2, "No such file");
  expect_pipeexec_refuses(good + " --trace /dev/full", 1, "No space left");
  expect_pipeexec_refuses(good + " --timeout 5", 2, "has no unit");
  const std::string emulated = "--device emulated --schedule 1f1b --stages 2 --microbatches 2";
  expect_pipeexec_refuses(emulated + " --model gpt-mini", 2, "trains nothing");
  expect_pipeexec_refuses(emulated + " --attention fused", 2, "trains nothing");
  expect_pipeexec_refuses(emulated + " --verify", 2, "no results to compare");
  expect_pipeexec_refuses(emulated + " --pace slow", 2, "known, nearest first: wall");
  expect_pipeexec_refuses(emulated + " --layout 1,1", 2, "needs costs by layer");
  expect_pipeexec_refuses(emulated + " --data-parallel 2", 2,
                          "give each stage or layer its `parameters`");
  expect_pipeexec_refuses(emulated + " --data-parallel 2 --pace anchored", 2,
                          "take time that costs do not give");
  expect_pipeexec_refuses(emulated + " --faults B@stage2=x2", 2, "there are 2 virtual stages");
  expect_pipeexec_refuses(emulated + " --faults 1B7=x2", 2, "the schedule has no such action");
  expect_pipeexec_refuses(emulated + " --faults W@stage1=x2", 2, "the schedule has no such action");
  expect_pipeexec_refuses(emulated + " --faults launch@rank2=1ms", 2, "there are 2 ranks");
  expect_pipeexec_refuses(emulated + " --faults B@stage1", 2, "there is no '='");
  expect_pipeexec_refuses(emulated + " --faults B@stage1=x101", 2, "not a factor from x0 to x100");
  expect_pipeexec_refuses(emulated + " --faults B@stage1=2", 2, "not a factor from x0 to x100");
  expect_pipeexec_refuses(emulated + " --faults SEND_F@stage1=x2", 2, "is not F, I, W or B");
  expect_pipeexec_refuses(emulated + " --faults B@1=x2", 2, "'1' is not a stage");
  expect_pipeexec_refuses(emulated + " --faults launch@rank1=1", 2, "has no unit");
  expect_pipeexec_refuses(emulated + " --faults pause@1B=1ms", 2, "is not F, I, W or B");
  expect_pipeexec_refuses(emulated + " --faults 0F0=x2,", 2, "there is no '='");
  expect_pipeexec_refuses(emulated + " --faults ''", 2, "there is no '='");
  expect_pipeexec_refuses(good + " --faults 0F0=x0.5", 2, "a training can't be sped up");
  expect_pipeexec_refuses(
      emulated + " --costs " + testing::source_file("examples/shared_card.json"), 2,
      "names a rank");
  expect_pipeexec_refuses(good + " --costs x.json", 2, "only --device emulated has costs");
  expect_pipeexec_refuses("run " + good, 2, "unknown subcommand 'run'");
}

TEST(Pipeexec, LeavesNothingBehindWhenItFails) {
  const testing::TemporaryFolder folder;
  expect_pipeexec_refuses(good + " --layout 9,9 --trace " + (folder / "run.json"), 2, "--layout");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A device's entry in the list: the text after its name.
std::string listed(const std::string& list, const std::string& name) {
  std::istringstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first >> std::ws;
    std::string rest;
    if (first == name && std::getline(words, rest)) return rest;
  }
  return {};
}

// A kind of which there is none is listed with the reason, and asking for it
// gives the same reason; of one that is there each GPU has a line.
// A limit on memory that has room for one more stack.
TEST(Pipeexec, SaysThatAThreadCannotStart) {
#ifndef PIPESIM_SANITIZED  // which takes an address space of its own
  const Outcome refused = testing::run_command(
      {"/bin/sh", "-c", "ulimit -s 2000000; ulimit -v 3000000; exec \"$0\" " + good,
       PIPEEXEC_COMMAND});
  testing::expect_one_sentence(refused, "pipeexec", good, 1, "cannot start a thread for rank ");
  EXPECT_NE(refused.err.find("ulimit -u"), std::string::npos);
#endif
}

TEST(Pipeexec, SaysWhyThereIsNoGpu) {
  const Outcome list = pipeexec("--list-devices");
  EXPECT_EQ(list.status, 0);
  for (const std::string kind : {"cuda", "hip"}) {
    const std::string alone = listed(list.out, kind);
    if (alone.empty()) {
      EXPECT_NE(listed(list.out, kind + ":0").find("GiB"), std::string::npos) << list.out;
      expect_pipeexec_refuses(good + " --device " + kind + ":99", 2,
                              "there is no such GPU; there is: cpu");
      continue;
    }
    const std::string here = "not here: ";
    ASSERT_TRUE(alone.starts_with(here)) << alone;
    const std::string reason = alone.substr(here.size());
    for (const std::string& name : {kind, kind + ":0", kind + ":99"}) {
      expect_pipeexec_refuses(good + " --device " + name, 2,
                              "--device " + name + ": " + reason + "; there is: cpu, emulated");
    }
  }
}

// The program alone in a folder, and next to files that are not modules.
TEST(Pipeexec, SaysWhatIsWrongWithAModule) {
  const testing::TemporaryFolder folder;
  std::filesystem::copy_file(PIPEEXEC_COMMAND, folder / "pipeexec");
  const auto reason = [&] {
    const Outcome list = testing::run_command({folder / "pipeexec", "--list-devices"});
    EXPECT_EQ(list.status, 0) << list.err;
    return listed(list.out, "cuda");
  };
  EXPECT_EQ(
      reason(),
      "not here: libpipesim_cuda.so is neither next to the program nor in ../lib/pipesim; build "
      "it where CUDA's nvcc is installed");
  write_file(folder / "libpipesim_cuda.so", "no library");
  EXPECT_NE(reason().find("libpipesim_cuda.so can't be loaded: "), std::string::npos) << reason();
  std::filesystem::remove(folder / "libpipesim_cuda.so");
  std::filesystem::copy_file(PIPESIM_STALE_MODULE, folder / "libpipesim_cuda.so");
  EXPECT_EQ(
      reason(),
      "not here: libpipesim_cuda.so is from another build than the program; build both together");
  const auto size = std::filesystem::file_size(folder / "libpipesim_cuda.so");
  for (const auto left : {size - 1, size / 2, size / 4}) {
    std::filesystem::resize_file(folder / "libpipesim_cuda.so", left);
    EXPECT_EQ(reason(), "not here: libpipesim_cuda.so is incomplete: " + std::to_string(left) +
                            " of " + std::to_string(size) + " bytes; build or copy it again");
  }
}

TEST(Pipeexec, ListsAndHelps) {
  const Outcome list = pipeexec("--list-devices");
  EXPECT_EQ(list.status, 0);
  for (const char* name : {"cpu", "mpi", "tcp", "local"}) {
    EXPECT_NE(list.out.find(name), std::string::npos) << name;
  }
  const Outcome help = pipeexec("--help");
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80) << line;
  EXPECT_EQ(help.out.find("cuda"), std::string::npos);
  EXPECT_TRUE(pipeexec("--version").out.starts_with("pipeexec "));
}

}  // namespace
}  // namespace pipesim
