// pipeexec with checkpoints as a user would: saves, resumes, stops, refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/command.h"
#include "tests/exec_calls.h"
#include "tests/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::expect_pipeexec_refuses;
using testing::Outcome;
using testing::pipeexec;
using testing::pipeexec_json;
using testing::TemporaryFolder;

namespace fs = std::filesystem;

const std::string two_stages =
    "--schedule 1f1b --stages 2 --microbatches 3 --micro-batch-size 1 --sequence-length 8";

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

void flip_a_bit(const std::string& path) {
  std::string bytes = read_file(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_file(path, bytes);
}

TEST(CheckpointCommand, GoesOnAsIfItHadNotEnded) {
  const TemporaryFolder folder;
  const std::string ck = folder / "ck";
  const Json whole = pipeexec_json(two_stages + " --warmup 1 --iterations 6");
  EXPECT_TRUE(whole["resumed_at"].is_null());
  const std::string saved = two_stages + " --warmup 1 --checkpoint-every 2 --checkpoint " + ck;
  const Json begun = pipeexec_json(saved + " --iterations 3");
  EXPECT_TRUE(begun["resumed_at"].is_null());
  EXPECT_EQ(names_in(ck),
            (std::vector<std::string>{"iteration-00000002", "iteration-00000004", "latest"}));
  EXPECT_EQ(read_file(ck + "/latest"), "iteration-00000004\n");
  const Json rest = pipeexec_json(saved + " --iterations 6 --keep 1 --resume " + ck);
  EXPECT_EQ(rest["resumed_at"], 4);
  EXPECT_EQ(rest["losses"], whole["losses"]);
  EXPECT_EQ(rest["warmup_losses"], whole["warmup_losses"]);
  EXPECT_EQ(rest["iteration_times_ns"].size(), 3U);
  EXPECT_EQ(rest["iterations"], 6);
  EXPECT_EQ(names_in(ck), (std::vector<std::string>{"iteration-00000007", "latest"}));
  // As far as asked for: nothing is done, and nothing is touched.
  const auto before = fs::last_write_time(ck + "/iteration-00000007");
  const Json none = pipeexec_json(two_stages + " --warmup 1 --iterations 6 --resume " + ck);
  EXPECT_EQ(none["resumed_at"], 7);
  EXPECT_EQ(none["losses"], whole["losses"]);
  EXPECT_TRUE(none["iteration_ns"].is_null());
  EXPECT_EQ(none["ranks"].size(), 0U);
  const Outcome told = pipeexec(two_stages + " --warmup 1 --iterations 6 --resume " + ck);
  EXPECT_EQ(told.status, 0);
  EXPECT_NE(told.out.find("nothing is left to do"), std::string::npos) << told.out;
  EXPECT_EQ(fs::last_write_time(ck + "/iteration-00000007"), before);
}

TEST(CheckpointCommand, AnotherLayoutGoesOn) {
  const TemporaryFolder folder;
  const std::string ck = folder / "ck";
  const std::string common =
      "--micro-batch-size 1 --sequence-length 8 --warmup 0 --iterations 6 --global-batch 4 ";
  pipeexec_json(common +
                "--schedule 1f1b --stages 2 --data-parallel 2 --zero 3 --checkpoint-every 3 "
                "--checkpoint " +
                ck);
  fs::remove_all(ck + "/iteration-00000006");
  const Json rest = pipeexec_json(common +
                                  "--schedule zb-h1 --stages 2 --tensor-parallel 2 --verify "
                                  "--resume " +
                                  ck);
  EXPECT_EQ(rest["resumed_at"], 3);
  EXPECT_EQ(rest["verify"]["bitwise"], true);
}

// 50,000 parameters in as many pieces as fit: saved and loaded in processor time that grows with
// them, of which their square would take far more than the system allows here.
TEST(CheckpointCommand, TinyBucketsAreSavedAndLoaded) {
  const TemporaryFolder folder;
  write_file(folder / "model.json",
             R"({"format":"pipesim-model","version":1,"architecture":"gpt","blocks":6,)"
             R"("hidden_size":32,"vocabulary_size":256,"max_sequence_length":32,"heads":4,)"
             R"("mlp_size":8})");
  for (const char* iterations : {"1", "2"}) {
    const Outcome outcome = testing::run_command({"/bin/sh",
                                                  "-c",
                                                  "ulimit -t 15; exec \"$0\" \"$@\"",
                                                  PIPEEXEC_COMMAND,
                                                  "--schedule",
                                                  "gpipe",
                                                  "--model",
                                                  folder / "model.json",
                                                  "--stages",
                                                  "1",
                                                  "--data-parallel",
                                                  "2",
                                                  "--zero",
                                                  "1",
                                                  "--bucket-bytes",
                                                  "8B",
                                                  "--microbatches",
                                                  "1",
                                                  "--micro-batch-size",
                                                  "1",
                                                  "--sequence-length",
                                                  "4",
                                                  "--warmup",
                                                  "0",
                                                  "--iterations",
                                                  iterations,
                                                  "--checkpoint",
                                                  folder / "ck",
                                                  "--resume",
                                                  folder / "ck",
                                                  "--quiet"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
}

TEST(CheckpointCommand, SavesAreInTheTrace) {
  const TemporaryFolder folder;
  const Json result =
      pipeexec_json(two_stages + " --warmup 1 --iterations 4 --checkpoint-every 1 --checkpoint " +
                    (folder / "ck") + " --trace " + (folder / "t.json"));
  const Json trace = Json::parse(read_file(folder / "t.json"));
  int saves = 0;
  for (const Json& event : trace["traceEvents"]) {
    saves += event.value("name", "").ends_with("SAVE") ? 1 : 0;
  }
  EXPECT_EQ(saves, 8);  // four measured iterations of two ranks
}

// Background writing is not part of any iteration's time: together they last no longer than the
// run.
TEST(CheckpointCommand, WritingBesideIsInNoIterationsTime) {
  const TemporaryFolder folder;
  const Json result = pipeexec_json(two_stages +
                                    " --warmup 1 --iterations 6 --checkpoint-every 1 "
                                    "--async-checkpoint --checkpoint " +
                                    (folder / "ck") + " --trace " + (folder / "t.json"));
  std::int64_t sum = 0;
  for (const Json& time : result["iteration_times_ns"]) sum += time.get<std::int64_t>();
  double begin = 1e18;
  double end = 0;
  int beside = 0;
  const Json trace = Json::parse(read_file(folder / "t.json"));
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || !event["args"].contains("kind")) continue;
    const bool is_beside = event["args"]["kind"] == "SAVE" && event["args"].contains("occurrence");
    beside += is_beside ? 1 : 0;
    if (is_beside) continue;
    begin = std::min(begin, event["ts"].get<double>());
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_GT(beside, 0);
  EXPECT_LE(static_cast<double>(sum), (end - begin) * 1000 + 1000);
}

TEST(CheckpointCommand, ADamagedOneIsSaidAndPassedOver) {
  const TemporaryFolder folder;
  const std::string ck = folder / "ck";
  const std::string line = two_stages +
                           " --warmup 0 --iterations 4 --checkpoint-every 2 --checkpoint " + ck +
                           " --resume " + ck;
  const Json whole = pipeexec_json(line);
  for (const char* name : {"rank-0000.safetensors", "manifest.json"}) {
    flip_a_bit(ck + "/iteration-00000004/" + name);
    const Outcome again = pipeexec(line + " --json");
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_NE(again.err.find("pipeexec: passes over a checkpoint: "), std::string::npos);
    EXPECT_NE(again.err.find(std::string("iteration-00000004/") + name), std::string::npos)
        << again.err;
    const Json json = Json::parse(again.out);
    EXPECT_EQ(json["resumed_at"], 2);
    EXPECT_EQ(json["losses"], whole["losses"]);
  }
  flip_a_bit(ck + "/iteration-00000004/rank-0000.safetensors");
  flip_a_bit(ck + "/iteration-00000002/rank-0001.safetensors");
  const Outcome none = pipeexec(line);
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("no checkpoint is complete; the newest: "), std::string::npos)
      << none.err;
}

// A checkpoint shows that it trains; then it is told to stop.
TEST(CheckpointCommand, SavesWhenItIsToldToStop) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const TemporaryFolder folder;
    const std::string ck = folder / "ck";
    testing::RunningCommand running(testing::pipeexec_argv(
        two_stages + " --warmup 0 --iterations 100000 --checkpoint-every 5 --keep 1 --quiet " +
        "--checkpoint " + ck));
    while (!fs::exists(ck + "/latest")) std::this_thread::yield();
    running.strike(signal);
    const Outcome outcome = running.outcome();
    EXPECT_EQ(outcome.status, 128 + signal) << outcome.err;
    EXPECT_NE(outcome.err.find("which is saved; --resume "), std::string::npos) << outcome.err;
    EXPECT_EQ(names_in(ck).size(), 2U);
  }
}

TEST(CheckpointCommand, NeedsNoReaderOfItsLog) {
  const TemporaryFolder folder;
  const std::string line = two_stages +
                           " --warmup 0 --iterations 4 --checkpoint-every 2 --checkpoint " +
                           (folder / "ck");
  EXPECT_EQ(testing::status_without_readers(testing::pipeexec_argv(line + " --json")), 0);
  EXPECT_TRUE(fs::exists(folder / "ck/iteration-00000004"));
}

// Its losses are no numbers, and are so in the manifest.
TEST(CheckpointCommand, ADivergedTrainingGoesOn) {
  const TemporaryFolder folder;
  const std::string ck = folder / "ck";
  const std::string line = two_stages + " --warmup 0 --learning-rate 1e6 --iterations 6 ";
  const Json whole = pipeexec_json(line + "--checkpoint-every 4 --checkpoint " + ck);
  EXPECT_TRUE(whole["losses"][3].is_null());
  fs::remove_all(ck + "/iteration-00000006");
  const Json rest = pipeexec_json(line + "--resume " + ck);
  EXPECT_EQ(rest["resumed_at"], 4);
  EXPECT_EQ(rest["losses"], whole["losses"]);
}

TEST(CheckpointCommand, RefusesInOneSentence) {
  const TemporaryFolder folder;
  const std::string ck = folder / "ck";
  const std::string saved = two_stages + " --warmup 1 --iterations 3 ";
  pipeexec_json(saved + "--checkpoint " + ck);
  const auto state = [&] {
    std::string all;
    for (const auto& entry : fs::recursive_directory_iterator(ck)) {
      all += entry.path().string() + (entry.is_directory() ? "" : read_file(entry.path().string()));
    }
    return all;
  };
  const std::string before = state();
  const std::string resumed = " --resume " + ck;
  expect_pipeexec_refuses(saved + "--checkpoint-every 2", 2,
                          "--checkpoint-every: nothing is saved");
  expect_pipeexec_refuses(saved + "--keep 2", 2, "--keep: nothing is saved");
  expect_pipeexec_refuses(saved + "--async-checkpoint", 2, "--async-checkpoint: nothing is saved");
  expect_pipeexec_refuses(saved + "--checkpoint " + ck + " --keep 0", 2, "--keep");
  expect_pipeexec_refuses(saved + "--checkpoint " + ck, 2,
                          "has a checkpoint of iteration 4; give --resume");
  expect_pipeexec_refuses(saved + "--resume " + (folder / "none"), 2, "there is no checkpoint");
  expect_pipeexec_refuses(saved + "--seed 2" + resumed, 2, "was made with --seed 1, not 2");
  expect_pipeexec_refuses(saved + "--model gpt2-small" + resumed, 2,
                          "is for model 'gpt-mini', not 'gpt2-small'");
  expect_pipeexec_refuses(two_stages + " --warmup 2 --iterations 3" + resumed, 2,
                          "was made with --warmup 1, not 2");
  expect_pipeexec_refuses(saved + "--data " + ck + "/latest" + resumed, 2,
                          "was trained on another text");
  expect_pipeexec_refuses("--schedule 1f1b --stages 11 --microbatches 3" + resumed, 2,
                          "use fewer stages");
  expect_pipeexec_refuses(saved + "--checkpoint " + ck + "/latest/x", 2, "can't be");
  expect_pipeexec_refuses(saved + "--checkpoint " + ck + "/a/b", 2, "can't be made");
  expect_pipeexec_refuses(
      "--device emulated --schedule 1f1b --stages 2 --microbatches 2 --checkpoint " + ck, 2,
      "an emulated device has nothing to save");
  EXPECT_EQ(state(), before);
}

// --------------------------------------------------------------------------- input pipelines

const std::string input =
    "--input-pipeline sparse-dist --ranks 2 --batch-size 8 --batches 8 --table-optimizer adagrad ";

TEST(InputCheckpointCommand, GoesOnAsIfItHadNotEnded) {
  const TemporaryFolder folder;
  for (const std::string pipeline : {"base", "sparse-dist", "semi-sync", "prefetch"}) {
    const std::string ck = folder / pipeline;
    const std::string line = "--input-pipeline " + pipeline +
                             " --ranks 2 --batch-size 8 --batches 8 --epochs 2 --evaluate 2 "
                             "--table-optimizer adagrad --verify --checkpoint-every 4 --keep 9 "
                             "--checkpoint " +
                             ck;
    const Json whole = pipeexec_json(line);
    EXPECT_EQ(whole["verify"]["bitwise"], true) << pipeline;
    EXPECT_EQ(names_in(ck).size(), 5U);
    // As if it had been struck behind the first half of the second epoch.
    fs::remove_all(ck + "/iteration-00000016");
    const Json rest = pipeexec_json(line + " --resume " + ck);
    EXPECT_EQ(rest["resumed_at"], 12) << pipeline;
    EXPECT_EQ(rest["losses"], whole["losses"]) << pipeline;
    EXPECT_EQ(rest["evaluations"], whole["evaluations"]) << pipeline;
    EXPECT_EQ(rest["verify"]["bitwise"], true) << pipeline;
    const Json none = pipeexec_json(line + " --resume " + ck);
    EXPECT_EQ(none["resumed_at"], 16);
    EXPECT_EQ(none["losses"], whole["losses"]);
  }
}

// Saves cut a program, which changes no bit where lookups see all updates.
TEST(InputCheckpointCommand, SavesChangeNoBit) {
  const TemporaryFolder folder;
  const Json plain = pipeexec_json(input);
  const Json saved = pipeexec_json(input + "--checkpoint-every 3 --async-checkpoint --checkpoint " +
                                   (folder / "ck"));
  EXPECT_EQ(plain["losses"], saved["losses"]);
}

TEST(InputCheckpointCommand, OtherShardsGoOn) {
  const TemporaryFolder folder;
  const std::string ck = folder / "ck";
  const std::string common = "--input-pipeline sparse-dist --batches 6 --table-optimizer adagrad ";
  const Json whole =
      pipeexec_json(common + "--ranks 2 --batch-size 8 --checkpoint-every 3 --checkpoint " + ck);
  fs::remove_all(ck + "/iteration-00000006");
  const Json rest = pipeexec_json(common + "--ranks 4 --batch-size 4 --resume " + ck);
  EXPECT_EQ(rest["resumed_at"], 3);
  ASSERT_EQ(rest["losses"].size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(rest["losses"][i].get<double>(), whole["losses"][i].get<double>(), 1e-5);
  }
}

TEST(InputCheckpointCommand, RefusesInOneSentence) {
  const TemporaryFolder folder;
  const std::string ck = folder / "ck";
  pipeexec_json(input + "--checkpoint " + ck);
  const std::string resumed = "--resume " + ck;
  expect_pipeexec_refuses(input + "--checkpoint " + ck, 2, "has a checkpoint of iteration 8");
  expect_pipeexec_refuses(input + "--seed 3 " + resumed, 2, "was made with --seed 1, not 3");
  expect_pipeexec_refuses(
      "--input-pipeline base --ranks 2 --batch-size 4 --batches 8 "
      "--table-optimizer adagrad " +
          resumed,
      2, "16, not 8");
  expect_pipeexec_refuses(two_stages + " " + resumed, 2,
                          "is from a training with an input pipeline");
  expect_pipeexec_refuses(
      input + "--accumulate 2 --checkpoint-every 3 --checkpoint " + (folder / "other"), 2,
      "the dense part steps after 2 batches; give a multiple");
  pipeexec_json(two_stages + " --iterations 1 --checkpoint " + (folder / "pipeline"));
  expect_pipeexec_refuses(input + "--resume " + (folder / "pipeline"), 2,
                          "is from a training with a schedule");
}

}  // namespace
}  // namespace pipesim
