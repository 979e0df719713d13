// pipeexec on GPUs emulated by the CPU, as users would run it on real ones. What it runs is said in
// tests/emulated_gpu/emulated_gpu.h.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/thorough.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::Outcome;

// As small as a model gets that has every kind of layer.
std::string model_in(const testing::TemporaryFolder& folder, int blocks, int head_size = 4) {
  const std::string path = folder / "model.json";
  write_file(path, R"({"format": "pipesim-model", "version": 1, "architecture": "gpt",
                       "hidden_size": )" +
                       std::to_string(2 * head_size) + R"(, "heads": 2, "kv_heads": 2, "experts": 1,
                       "vocabulary_size": 256, "max_sequence_length": 4, "blocks": )" +
                       std::to_string(blocks) + "}");
  return path;
}

// Heads share keys and values, and positions are turned.
std::string llama_in(const testing::TemporaryFolder& folder) {
  const std::string path = folder / "llama.json";
  write_file(path, R"({"format": "pipesim-model", "version": 1, "architecture": "llama",
                       "blocks": 4, "hidden_size": 8, "heads": 4, "kv_heads": 2, "mlp_size": 12,
                       "vocabulary_size": 256, "max_sequence_length": 4, "qkv_bias": true,
                       "dropout": 0.1})");
  return path;
}

Outcome call(const std::string& line, const std::vector<std::string>& environment = {}) {
  std::vector<std::string> argv{PIPESIM_EMULATED "/pipeexec"};
  std::istringstream in(line);
  for (std::string word; in >> word;) argv.push_back(word);
  return testing::run_command(argv, environment);
}

Outcome train(const std::string& line, const std::string& model,
              const std::vector<std::string>& environment = {}) {
  return call(
      "--transport local --warmup 0 --iterations 1 --microbatches 4 --micro-batch-size 1 "
      "--sequence-length 4 --verify --quiet --timeout 60s --model " +
          model + " " + line,
      environment);
}

TEST(EmulatedPipeexec, ListsItsGpus) {
  const Outcome one = call("--list-devices");
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_NE(one.out.find("cuda:0   Emulated GPU, 1.0 GiB"), std::string::npos) << one.out;
  EXPECT_EQ(one.out.find("cuda:1"), std::string::npos) << one.out;
  const Outcome two = call("--list-devices", {"PIPESIM_EMULATED_GPUS=2"});
  EXPECT_NE(two.out.find("cuda:1   Emulated GPU"), std::string::npos) << two.out;
  const Outcome none = call("--list-devices", {"PIPESIM_EMULATED_GPUS=0"});
  EXPECT_EQ(none.status, 0) << none.err;
  EXPECT_NE(none.out.find("could not count the GPUs"), std::string::npos) << none.out;
}

// Both kinds of seeds.
TEST(EmulatedPipeexec, PipelinesHaveTheBitsOfOneRank) {
  const testing::TemporaryFolder folder;
  const std::string model = model_in(folder, 6);
  std::vector<std::string> runs;
  for (const std::string stages : {"1", "2", "4"}) {
    for (const std::string schedule : {"gpipe", "1f1b", "interleaved", "zb-h1"}) {
      runs.push_back("--device cuda --schedule " + schedule + " --stages " + stages);
    }
  }
  int seed = 0;
  for (const std::string& line : testing::tried(runs, 5)) {
    const std::string with = "PIPESIM_EMULATED_GPU_SEED=" + std::to_string(++seed);
    const Outcome outcome = train(line, model, {with});
    EXPECT_EQ(outcome.status, 0) << line << ", " << with << ": " << outcome.err;
  }
}

// A rank adds its copies up while the other still waits for what it has sent.
TEST(EmulatedPipeexec, CopiesOfStagesHaveTheBitsOfOneRank) {
  const testing::TemporaryFolder folder;
  const Outcome outcome =
      train("--device cuda --schedule dualpipe --stages 2", model_in(folder, 4));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST(EmulatedPipeexec, LlamasHaveTheBitsOfOneRank) {
  const testing::TemporaryFolder folder;
  const std::string model = llama_in(folder);
  for (const char* flags :
       {"1f1b --stages 2", "zb-h1 --stages 2 --precision bf16",
        "1f1b --stages 2 --recompute full --data-parallel 2 --zero 3 --precision bf16"}) {
    const std::string line = "--device cuda --schedule " + std::string(flags);
    const Outcome outcome = train(line, model);
    EXPECT_EQ(outcome.status, 0) << line << ": " << outcome.err;
  }
}

// What shards exchange passes through the host; what is computed again is so to the last bit.
TEST(EmulatedPipeexec, ShardsHaveTheBitsOfOneRank) {
  const testing::TemporaryFolder folder;
  struct Run {
    std::string model, flags;
  };
  std::vector<Run> runs;
  for (const std::string flags : {"", "--sequence-parallel", "--precision bf16",
                                  "--sequence-parallel --precision bf16 --data-parallel 2 --zero 1",
                                  "--precision bf16 --recompute attention,norms,activation"}) {
    for (const std::string& model : {model_in(folder, 4), llama_in(folder)}) {
      runs.push_back({model, flags});
    }
  }
  int seed = 0;
  for (const Run& run : testing::tried(runs, 4)) {
    const std::string line =
        "--device cuda --schedule zb-h1 --stages 2 --tensor-parallel 2 " + run.flags;
    const std::string with = "PIPESIM_EMULATED_GPU_SEED=" + std::to_string(++seed);
    const Outcome outcome = train(line, run.model, {with});
    EXPECT_EQ(outcome.status, 0) << line << ", " << with << ": " << outcome.err;
  }
}

// What replicas exchange passes through the host.
TEST(EmulatedPipeexec, ReplicasHaveTheBitsOfOneRank) {
  const testing::TemporaryFolder folder;
  const std::string model = model_in(folder, 6);
  std::vector<std::string> splits;
  for (int times = 0; times < 2; ++times) {  // seven: by seeds of the other kind
    splits.insert(splits.end(),
                  {"--zero 0 --bucket-bytes 1kB", "--zero 0", "--zero 2", "--zero 1", "--zero 3",
                   "--zero 1 --precision bf16", "--zero 3 --precision bf16"});
  }
  int seed = 0;
  for (const std::string& split : testing::tried(splits, 5)) {
    const std::string line = "--device cuda --schedule 1f1b --stages 2 --data-parallel 2 " + split;
    const std::string with = "PIPESIM_EMULATED_GPU_SEED=" + std::to_string(++seed);
    const Outcome outcome = train(line, model, {with});
    EXPECT_EQ(outcome.status, 0) << line << ", " << with << ": " << outcome.err;
  }
}

TEST(EmulatedPipeexec, RanksTakeGpusByTurns) {
  const testing::TemporaryFolder folder;
  const std::string model = model_in(folder, 2);
  const std::string line = "--schedule 1f1b --stages 3 --device cuda";
  const Outcome outcome = train(line, model, {"PIPESIM_EMULATED_GPUS=2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Outcome second = train(line + ":1", model, {"PIPESIM_EMULATED_GPUS=2"});
  EXPECT_EQ(second.status, 0) << second.err;
  testing::expect_one_sentence(train(line + ":1", model), "pipeexec", line + ":1", 2,
                               "there is no such GPU");
}

// At least what its tensors hold; in bf16 half of that for weights, with those of
// the optimizer in fp32.
TEST(EmulatedPipeexec, TellsWhatARankTookAndHolds) {
  const testing::TemporaryFolder folder;
  const std::string line = "--schedule 1f1b --stages 2 --device cuda --json";
  const std::string model = model_in(folder, 2);
  const auto rank = [&](const std::string& flags) {
    const Outcome outcome = train(line + flags, model);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out)["ranks"][0];
  };
  const auto whole = rank("");
  const auto half = rank(" --precision bf16");
  for (const auto& told : {whole, half}) {
    EXPECT_GT(told["taken_from_gpu_bytes"].get<std::int64_t>(),
              told["peak_memory_bytes"].get<std::int64_t>());
  }
  const auto bytes = [](const nlohmann::json& told, const char* use) {
    return told["memory_bytes"][use].get<std::int64_t>();
  };
  const std::int64_t weights = bytes(whole, "weights");
  EXPECT_EQ(2 * bytes(half, "weights"), weights);
  EXPECT_EQ(bytes(half, "gradients"), bytes(whole, "gradients"));
  EXPECT_EQ(bytes(whole, "optimizer"), 2 * weights);
  EXPECT_EQ(bytes(half, "optimizer"), 3 * weights);
  EXPECT_LT(bytes(half, "activations"), bytes(whole, "activations"));
}

TEST(EmulatedPipeexec, SaysThatMemoryIsUsedUp) {
  const testing::TemporaryFolder folder;
  const std::string line = "--schedule 1f1b --stages 2 --device cuda";
  testing::expect_one_sentence(train(line, model_in(folder, 40), {"PIPESIM_EMULATED_GPU_MIB=1"}),
                               "pipeexec", line, 1, "MiB free of 1 MiB");
}

TEST(EmulatedPipeexec, AttentionOfGpusIsFused) {
  const testing::TemporaryFolder folder;
  const std::string model = model_in(folder, 2);
  const std::string line = "--schedule 1f1b --stages 2 --device cuda --json";
  for (const char* flags : {"", " --attention fused"}) {
    const Outcome outcome = train(line + flags, model);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["attention"], "fused");
  }
  testing::expect_one_sentence(
      train(line + " --attention unfused", model), "pipeexec", line, 2,
      "--attention unfused: device cuda never keeps scores; omit it, or give fused");
}

TEST(EmulatedPipeexec, RefusesHeadsThatAreTooLarge) {
  const testing::TemporaryFolder folder;
  for (const char* precision : {"fp32", "bf16"}) {
    const std::string line =
        "--schedule 1f1b --stages 2 --device cuda --precision " + std::string(precision);
    testing::expect_one_sentence(train(line, model_in(folder, 2, 257)), "pipeexec", line, 2,
                                 "heads of 257 numbers are too large for attention; use at most");
  }
}

}  // namespace
}  // namespace pipesim
