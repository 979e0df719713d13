// pipeexec checkpoint show, verify, export and import, as a user would call them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/tensor_files.h"
#include "tests/words.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::lines_of;
using testing::Outcome;
using testing::TemporaryFolder;

class CheckpointTools : public ::testing::Test {
 protected:
  // In the test's folder.
  Outcome call(const std::string& line, const std::string& before = "") const {
    return testing::run_command({"/bin/sh", "-c",
                                 "cd '" + folder_.path().string() + "' && " + before +
                                     "exec '" PIPEEXEC_COMMAND "' " + line},
                                {"COLUMNS=80"});
  }
  std::string output_of(const std::string& line) const {
    const Outcome outcome = call(line);
    EXPECT_EQ(outcome.status, 0) << line << "\n" << outcome.err;
    EXPECT_EQ(outcome.err, "") << line;
    return outcome.out;
  }
  void expect_refused(const std::string& line, int status, const std::string& part) const {
    testing::expect_one_sentence(call(line), "pipeexec", line, status, part);
  }
  void train(const std::string& more) const { output_of(training_ + more + " --quiet"); }
  void flip_byte(const std::string& file) const {
    std::string bytes = read_file(folder_ / file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_file(folder_ / file, bytes);
  }

  const std::string training_ =
      "--schedule 1f1b --stages 2 --microbatches 2 --micro-batch-size 1 --sequence-length 8 "
      "--warmup 1 ";
  TemporaryFolder folder_;
};

TEST_F(CheckpointTools, ShowsWhatIsThere) {
  train("--iterations 5 --accumulate 2 --checkpoint ck --checkpoint-every 3 --keep 3");
  const std::string shown = output_of("checkpoint show ck");
  const std::vector<std::string> lines = lines_of(shown);
  ASSERT_GE(lines.size(), 8U);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80U) << line;
  // Warm-up is a step of its own, and then of five passes two are steps of two.
  EXPECT_EQ(lines[0], "iteration      step      bytes  files  layout");
  EXPECT_TRUE(lines[1].starts_with("        6         4 ")) << lines[1];
  EXPECT_TRUE(lines[1].ends_with("      2  1f1b, 2 stages  latest")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("        3         2 ")) << lines[2];
  EXPECT_TRUE(lines[2].ends_with("1f1b, 2 stages")) << lines[2];
  EXPECT_NE(shown.find("\niteration 6\nmodel   gpt-mini: 8 blocks, hidden size 128, "),
            std::string::npos);
  EXPECT_NE(shown.find("\nseed    1\nlosses  5."), std::string::npos);
  EXPECT_NE(shown.find(" at last, of 4 steps\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("\nblock 0 to 7, each           12         198,272         396,544"),
            std::string::npos)
      << shown;
  const std::string earlier = output_of("checkpoint show ck --iteration 3");
  EXPECT_NE(earlier.find("\niteration 3\n"), std::string::npos);
}

TEST_F(CheckpointTools, TellsTheSameAsJson) {
  train("--iterations 4 --checkpoint ck --checkpoint-every 2 --keep 3");
  const Json json = Json::parse(output_of("checkpoint show ck --json --iteration 2"));
  EXPECT_EQ(json["format"], "pipesim-checkpoint-list");
  EXPECT_EQ(json["version"], 1);
  ASSERT_EQ(json["checkpoints"].size(), 3U);
  const Json& newest = json["checkpoints"][0];
  EXPECT_EQ(newest["name"], "iteration-00000005");
  EXPECT_EQ(newest["iteration"], 5);
  EXPECT_EQ(newest["kind"], "pipeline");
  EXPECT_EQ(newest["step"], 5);
  EXPECT_EQ(newest["passes"], 0);
  EXPECT_EQ(newest["is_latest"], true);
  EXPECT_EQ(json["checkpoints"][1]["is_latest"], false);
  EXPECT_EQ(newest["files"], 2);
  EXPECT_EQ(newest["model"], "gpt-mini");
  EXPECT_EQ(newest["seed"], "1");
  EXPECT_EQ(newest["imported"], nullptr);
  EXPECT_EQ(newest["losses"].size(), 5U);
  EXPECT_EQ(newest["layout"], Json({{"schedule", "1f1b"},
                                    {"pipeline_parallel", 2},
                                    {"data_parallel", 1},
                                    {"tensor_parallel", 1},
                                    {"zero", 0}}));
  std::uintmax_t bytes = 0;
  for (const char* rank : {"0000", "0001"}) {
    bytes += std::filesystem::file_size(
        folder_ / ("ck/iteration-00000005/rank-" + std::string(rank) + ".safetensors"));
  }
  EXPECT_EQ(newest["bytes"], bytes);
  EXPECT_EQ(json["damaged"], Json::array());
  const Json& numbers = json["numbers"];
  EXPECT_EQ(numbers["iteration"], 2);
  EXPECT_EQ(numbers["fault"], nullptr);
  ASSERT_EQ(numbers["layers"].size(), 10U);
  EXPECT_EQ(numbers["layers"][3]["name"], "block 2");
  std::int64_t weights = 0;
  for (const Json& layer : numbers["layers"]) {
    weights += layer["weights"].get<std::int64_t>();
    EXPECT_EQ(layer["moments"], 2 * layer["weights"].get<std::int64_t>());
    EXPECT_EQ(layer["gradients"], 0);
  }
  EXPECT_EQ(numbers["total"]["weights"], weights);
}

TEST_F(CheckpointTools, VerifiesEachFile) {
  train("--iterations 3 --checkpoint ck --checkpoint-every 2 --keep 3");
  const std::vector<std::string> whole = lines_of(output_of("checkpoint verify ck"));
  ASSERT_EQ(whole.size(), 2U);
  EXPECT_TRUE(whole[0].starts_with("iteration-00000004: complete, 2 files, ")) << whole[0];
  EXPECT_TRUE(whole[1].starts_with("iteration-00000002: complete, 2 files, ")) << whole[1];
  flip_byte("ck/iteration-00000002/rank-0001.safetensors");
  const Outcome one = call("checkpoint verify ck");
  EXPECT_EQ(one.status, 1);
  EXPECT_EQ(lines_of(one.out).at(0), whole[0]);
  EXPECT_EQ(lines_of(one.out).at(1),
            "damaged: ck/iteration-00000002/rank-0001.safetensors: is altered: its hash is not "
            "the one in the manifest");
  EXPECT_TRUE(one.err.starts_with("pipeexec: ck: 1 of 2 checkpoints is damaged; the first: "))
      << one.err;
  EXPECT_EQ(std::ranges::count(one.err, '\n'), 1);
  flip_byte("ck/iteration-00000004/manifest.json");
  const Outcome both = call("checkpoint verify ck");
  EXPECT_EQ(both.status, 1);
  EXPECT_TRUE(both.err.starts_with("pipeexec: ck: 2 of 2 checkpoints are damaged; ")) << both.err;
  expect_refused("checkpoint verify .", 2, "there is no checkpoint");
}

TEST_F(CheckpointTools, ExportTakesTheNewestWholeOne) {
  train("--iterations 3 --checkpoint ck --checkpoint-every 2 --keep 3");
  EXPECT_EQ(output_of("checkpoint export ck out.safetensors --config config.json"),
            "out.safetensors: 100 tensors of gpt-mini, iteration 4\n");
  EXPECT_EQ(testing::read_tensors(folder_ / "out.safetensors").size(), 100U);
  EXPECT_EQ(Json::parse(read_file(folder_ / "config.json"))["n_embd"], 128);
  output_of("checkpoint export ck second.safetensors --iteration 2");
  EXPECT_NE(read_file(folder_ / "second.safetensors"), read_file(folder_ / "out.safetensors"));
  flip_byte("ck/iteration-00000004/rank-0000.safetensors");
  const Outcome outcome = call("checkpoint export ck third.safetensors");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "third.safetensors: 100 tensors of gpt-mini, iteration 2\n");
  EXPECT_EQ(outcome.err,
            "pipeexec: passes over a checkpoint: ck/iteration-00000004/rank-0000.safetensors: is "
            "altered: its hash is not the one in the manifest\n");
  EXPECT_EQ(read_file(folder_ / "third.safetensors"), read_file(folder_ / "second.safetensors"));
}

// Weights go out, in, and a training of another seed and text goes on from them: its first loss is
// the one of a training that goes on with the same sequences.
TEST_F(CheckpointTools, WhatIsExportedCanBeImportedAndTrained) {
  train("--iterations 9 --checkpoint ck");
  output_of("checkpoint export ck out.safetensors");
  const std::string said =
      output_of("checkpoint import out.safetensors --model gpt-mini --checkpoint in");
  EXPECT_TRUE(said.starts_with("in: gpt-mini as iteration 0, ")) << said;
  output_of("checkpoint verify in");
  output_of("checkpoint export in again.safetensors");
  EXPECT_EQ(read_file(folder_ / "again.safetensors"), read_file(folder_ / "out.safetensors"));
  const std::string shown = output_of("checkpoint show in");
  EXPECT_NE(shown.find("        0         0 "), std::string::npos) << shown;
  EXPECT_NE(shown.find("      1  imported  latest\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("\nfrom    out.safetensors\n"), std::string::npos) << shown;

  const std::string more =
      "--schedule gpipe --stages 1 --microbatches 2 --sequence-length 16 --seed 5 --warmup 0 "
      "--iterations 2 --resume in --checkpoint in --json";
  const Json trained = Json::parse(output_of(more));
  ASSERT_EQ(trained["losses"].size(), 2U);
  // Ten steps have brought the loss down from ln 256.
  EXPECT_LT(trained["losses"][0].get<double>(), 5.4);
  EXPECT_NE(output_of("checkpoint show in").find("        2         2 "), std::string::npos);
  expect_refused(
      "--schedule gpipe --stages 1 --microbatches 2 --model llama-mini --iterations 3 "
      "--warmup 0 --resume in",
      2, "is for model 'gpt-mini', not 'llama-mini'");
}

TEST_F(CheckpointTools, WrongInputIsNamed) {
  expect_refused("checkpoint", 2, "subcommand is required");
  expect_refused("checkpoint shwo ck", 2, "unknown subcommand 'shwo'; known, nearest first: show");
  expect_refused("checkpoint show", 2, "folder is required");
  expect_refused("checkpoint show none", 2, "none: there is no checkpoint; give a folder");
  expect_refused("checkpoint export none out.safetensors", 2, "none: there is no checkpoint");
  train("--iterations 1 --checkpoint ck");
  expect_refused("checkpoint show ck --iteration 7", 2,
                 "ck: has no checkpoint of iteration 7; there is: 2");
  expect_refused("checkpoint show ck --iteration x", 2, "--iteration: 'x' is not a whole number");
  expect_refused("checkpoint export ck no/such/out.safetensors", 2, "no/such/out.safetensors");
  expect_refused("checkpoint export ck out.safetensors --config out.safetensors", 2,
                 "name the same file");
  expect_refused("checkpoint export ck out.safetensors.gz", 2, "omit .gz");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.safetensors"));

  output_of("checkpoint export ck out.safetensors");
  expect_refused("checkpoint import none.safetensors --model gpt-mini --checkpoint in", 2,
                 "none.safetensors: can't be read: No such file");
  expect_refused("checkpoint import ck --model gpt-mini --checkpoint in", 2, "not a regular file");
  expect_refused("checkpoint import out.safetensors --model gpt-mini --checkpoint ck", 2,
                 "--checkpoint ck: has a checkpoint; give another folder");
  expect_refused("checkpoint import out.safetensors --model llama-mini --checkpoint in", 2,
                 "out.safetensors: lacks 'model.embed_tokens.weight' of the shape [256, 128]");
  expect_refused("checkpoint import out.safetensors --model mlp-mini --checkpoint in", 2,
                 "--model: 'mlp-mini' has no form in Hugging Face's names");
  expect_refused("checkpoint import out.safetensors --model x --checkpoint in", 2, "unknown model");
  write_file(folder_ / "text", "no tensors at all");
  expect_refused("checkpoint import text --model gpt-mini --checkpoint in", 2,
                 "text: is not a file of safetensors");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "in"));
  expect_refused("checkpoint import out.safetensors --model gpt-mini --checkpoint no/such", 2,
                 "no/such: can't be made: No such file");

  flip_byte("ck/iteration-00000002/rank-0000.safetensors");
  expect_refused("checkpoint export ck other.safetensors --iteration 2", 2, "is altered");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other.safetensors"));
  std::filesystem::remove(folder_ / "ck/iteration-00000002/rank-0001.safetensors");
  const std::string shown = output_of("checkpoint show ck");
  EXPECT_NE(shown.find("\ndamaged: ck/iteration-00000002/rank-0001.safetensors: can't be read"),
            std::string::npos)
      << shown;
}

TEST_F(CheckpointTools, OneProcessIsEnough) {
  train("--iterations 1 --checkpoint ck");
  const Outcome outcome =
      call("checkpoint show ck", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 ");
  testing::expect_one_sentence(outcome, "pipeexec", "checkpoint show ck", 2,
                               "mpirun has started 2 of checkpoint show; one is enough");
}

TEST_F(CheckpointTools, OtherModelsCanBeLookedAt) {
  train("--iterations 1 --model mlp-mini --checkpoint ck");
  output_of("checkpoint verify ck");
  EXPECT_NE(output_of("checkpoint show ck").find("mlp-mini: "), std::string::npos);
  expect_refused("checkpoint export ck out.safetensors", 2,
                 "ck: 'mlp-mini' has no form in Hugging Face's names");
  output_of(
      "--input-pipeline base --ranks 2 --batches 4 --batch-size 4 --quiet --checkpoint input "
      "--checkpoint-every 2");
  output_of("checkpoint verify input");
  const std::string shown = output_of("checkpoint show input");
  EXPECT_NE(shown.find("\ntable 0"), std::string::npos) << shown;
  EXPECT_NE(shown.find("base, 2 ranks  latest\n"), std::string::npos) << shown;
  expect_refused("checkpoint export input out.safetensors", 2,
                 "is a recommendation model, for which Hugging Face has no names");
}

}  // namespace
}  // namespace pipesim
