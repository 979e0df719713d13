// Ranks whose devices are linked: pipeexec --transport nccl on emulated GPUs
// and an emulated NCCL (tests/emulated_gpu, tests/emulated_nccl).
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/files.h"
#include "tests/mpi/mpirun.h"
#include "tests/thorough.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::mpirun;
using testing::Outcome;

class LinkedPipeexec : public ::testing::Test {
 protected:
  // A model of eight layers, the ends of which share their matrix.
  LinkedPipeexec() {
    write_file(folder_ / "model.json", R"({"format": "pipesim-model", "version": 1,
      "name": "tiny", "architecture": "gpt", "blocks": 6, "hidden_size": 8, "heads": 1,
      "mlp_size": 8, "vocabulary_size": 256, "max_sequence_length": 8, "tied_head": true,
      "dropout": 0.1})");
  }

  // One iteration, unless another number of them is given.
  std::vector<std::string> command(const std::vector<std::string>& arguments) const {
    std::vector<std::string> argv{
        EMULATED_PIPEEXEC,    "--model", folder_ / "model.json", "--device", "cuda",
        "--micro-batch-size", "1",       "--sequence-length",    "2"};
    if (std::ranges::count(arguments, "--iterations") == 0) {
      argv.insert(argv.end(), {"--warmup", "0", "--iterations", "1"});
    }
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return argv;
  }

  Outcome run(int ranks, std::vector<std::string> arguments,
              const std::vector<std::string>& environment = {}) const {
    arguments.insert(arguments.end(), {"--transport", "nccl"});
    return mpirun(ranks, command(arguments), environment);
  }

  // Of two ranks the last, or of three the middle one has that fault.
  Outcome run_with_fault(const std::string& fault, const std::string& timeout, int ranks = 3,
                         const std::vector<std::string>& layout = {"--schedule", "1f1b"}) const {
    std::vector<std::string> own{"--transport", "nccl",    "--microbatches",
                                 "4",           "--quiet", "--timeout",
                                 timeout,       "--trace", folder_ / "trace.json"};
    own.insert(own.end(), layout.begin(), layout.end());
    own = command(own);
    std::vector<std::string> all = own;
    all.insert(all.end(), {":", "-n", "1", "env", "PIPESIM_EMULATED_NCCL_FAULT=" + fault});
    all.insert(all.end(), own.begin(), own.end());
    if (ranks == 3) {
      all.insert(all.end(), {":", "-n", "1"});
      all.insert(all.end(), own.begin(), own.end());
    }
    Outcome outcome = mpirun(1, all);
    EXPECT_NE(outcome.status, 0) << fault;
    EXPECT_EQ(outcome.out, "") << fault;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "trace.json")) << fault;
    return outcome;
  }

  void verify(int ranks, const std::vector<std::string>& schedule, const std::string& seed) const {
    SCOPED_TRACE(schedule.front() + " on " + std::to_string(ranks) + ", seed " + seed);
    std::vector<std::string> arguments{"--verify", "--json", "--timeout", "60s", "--schedule"};
    arguments.insert(arguments.end(), schedule.begin(), schedule.end());
    const Outcome outcome = run(ranks, arguments, {"PIPESIM_EMULATED_GPU_SEED=" + seed});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("\"bitwise\": true"), std::string::npos) << outcome.out;
  }

  testing::TemporaryFolder folder_;
};

// An even seed runs some operations as soon as they are asked for, an odd one
// none before it is needed.
TEST_F(LinkedPipeexec, GivesWhatOneRankGives) {
  struct Run {
    int ranks;
    std::vector<std::string> schedule;
  };
  std::vector<Run> runs{{2, {"gpipe", "--microbatches", "3"}},
                        {4, {"1f1b", "--microbatches", "4"}},
                        {2, {"1f1b", "--microbatches", "4"}},
                        {4, {testing::golden("dualpipev_4rank_10mb.csv")}},
                        {2, {"interleaved", "--microbatches", "2"}},
                        {4, {"eager-1f1b", "--microbatches", "4"}},
                        {2, {"zb-h1", "--microbatches", "4"}},
                        {3, {"zb-v", "--microbatches", "4"}},
                        {3, {"v-min", "--microbatches", "3"}},
                        {4, {"zb-h1", "--microbatches", "4"}},
                        {2, {PIPESIM_SOURCE_DIR "/examples/two_chunks_v.csv"}},
                        {4, {"interleaved", "--microbatches", "4"}},
                        {2, {"1f1b", "--microbatches", "4", "--precision", "bf16"}}};
  for (const char* zero : {"0", "1", "2", "3"}) {
    runs.push_back({4, {"1f1b", "--microbatches", "2", "--data-parallel", "2", "--zero", zero}});
  }
  int seed = 0;
  for (const Run& run : testing::tried(runs, 9)) {
    verify(run.ranks, run.schedule, std::to_string(++seed));
    if (testing::is_thorough()) verify(run.ranks, run.schedule, std::to_string(seed + 1));
  }
}

TEST_F(LinkedPipeexec, GoesOnForIterations) {
  const Outcome outcome = run(3, {"--schedule", "1f1b", "--microbatches", "3", "--warmup", "1",
                                  "--iterations", "3", "--verify", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\"bitwise\": true"), std::string::npos) << outcome.out;
}

// NCCL adds gradients up, in its own order: in parts of replicas, and for all.
TEST_F(LinkedPipeexec, AddsUpGradients) {
  const std::vector<std::vector<std::string>> splits{
      {"--data-parallel", "2", "--bucket-bytes", "1kB"},
      {"--data-parallel", "2", "--zero", "3"},
      {"--data-parallel", "4", "--zero", "2", "--shard-over", "2"}};
  for (const std::vector<std::string>& split : splits) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(split, " ")));
    std::vector<std::string> arguments{"--verify",       "--json", "--schedule",   "1f1b",
                                       "--stages",       "1",      "--reduce",     "library",
                                       "--microbatches", "2",      "--iterations", "2"};
    arguments.insert(arguments.end(), split.begin(), split.end());
    const Outcome outcome = run(std::stoi(split[1]), arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto json = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(json["reduce"], "library");
    EXPECT_LE(json["verify"]["outcome_rel_error"], 1e-5);
  }
}

// The last of two ranks is killed or stands still, or its sum fails or is lost: the first, which
// opens them, or one of buckets in a backward.
TEST_F(LinkedPipeexec, ASumThatFailsEndsAll) {
  struct Case {
    std::string fault, timeout, said;
  };
  const std::string waited = "0REDUCE_GRAD: waited 500.0 ms for the others of a collective";
  for (const Case& one : {Case{"kill:2", "60s", "signal 9"},
                          {"fail:4", "60s", "the network is down"},
                          {"lose:1", "500ms", "could not open the collectives of 2 replicas"},
                          {"lose:4", "500ms", waited},
                          {"stop:2", "500ms", waited}}) {
    const Outcome outcome =
        run_with_fault(one.fault, one.timeout, 2,
                       {"--schedule", "1f1b", "--stages", "1", "--data-parallel", "2", "--reduce",
                        "library", "--bucket-bytes", "1kB"});
    EXPECT_NE(outcome.err.find(one.said), std::string::npos) << one.fault << ": " << outcome.err;
  }
}

// Weights that are gathered, by 1F1B's window of stages or layer by layer, and a gather that is
// lost: the second of three of the last rank, behind one that opens them.
TEST_F(LinkedPipeexec, GathersWeights) {
  verify(4, {"1f1b", "--microbatches", "2", "--data-parallel", "2", "--zero", "3"}, "2");
  verify(3,
         {"1f1b", "--microbatches", "2", "--data-parallel", "3", "--stages", "1", "--zero", "3",
          "--precision", "bf16"},
         "1");
  const Outcome outcome = run_with_fault("lose:3", "500ms", 2,
                                         {"--schedule", "1f1b", "--stages", "1", "--data-parallel",
                                          "2", "--zero", "3", "--gather", "once"});
  EXPECT_NE(outcome.err.find("0UNSHARD: waited 500.0 ms for the others of a collective"),
            std::string::npos)
      << outcome.err;
}

// Numbers come from the GPU's memory, and go back there.
TEST_F(LinkedPipeexec, GoesOnFromACheckpoint) {
  const auto losses = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--schedule", "1f1b", "--microbatches", "4", "--warmup", "0",
                             "--iterations", "4", "--precision", "bf16", "--json"});
    const Outcome outcome = run(2, more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? nlohmann::json::parse(outcome.out)["losses"] : nlohmann::json();
  };
  const nlohmann::json whole = losses({});
  for (const std::vector<std::string>& beside :
       {std::vector<std::string>{}, {"--async-checkpoint"}}) {
    const std::string ck = folder_ / ("ck" + std::to_string(beside.size()));
    std::vector<std::string> saves{"--checkpoint", ck, "--checkpoint-every", "2"};
    saves.insert(saves.end(), beside.begin(), beside.end());
    EXPECT_EQ(losses(saves), whole);
    ASSERT_GT(std::filesystem::remove_all(ck + "/iteration-00000004"), 0U);
    EXPECT_EQ(losses({"--resume", ck}), whole);
  }
}

// Exchanges of devices that are not linked, through the host.
TEST(EmulatedGpu, PassesTheSuiteOverMpi) {
  const Outcome outcome =
      mpirun(3, {PIPESIM_MPI_SUITE},
             {"PIPESIM_TEST_GPU=cuda:0", "PIPESIM_TEST_MODULES=" PIPESIM_EMULATED});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "3 ranks passed\n");
}

// A message starts with what is sent, ends after that, and is there before what
// needs it begins.
TEST_F(LinkedPipeexec, RecordsItsMessages) {
  const std::string path = folder_ / "trace.json";
  const Outcome outcome =
      run(2, {"--schedule", "1f1b", "--microbatches", "4", "--trace", path, "--quiet"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto trace = nlohmann::json::parse(read_file(path));
  EXPECT_EQ(trace["metadata"]["pipesim"]["transport"], "nccl");
  struct Times {
    double start = 0;
    double end = 0;
  };
  std::map<std::string, Times> actions;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || (event["cat"] != "compute" && event["cat"] != "p2p")) continue;
    const double start = event["ts"];
    const double duration = event["dur"];
    actions[event["name"]] = {start, start + duration};
  }
  int messages = 0;
  const auto expect_in_order = [&](const std::string& from, const std::string& to, const char* kind,
                                   int microbatch) {
    const std::string mb = std::to_string(microbatch);
    const std::string letter = kind;
    ASSERT_TRUE(actions.contains(from + "SEND_" + letter + mb)) << path;
    const Times made = actions.at(from + letter + mb);
    const Times send = actions.at(from + "SEND_" + letter + mb);
    const Times receive = actions.at(to + "RECV_" + letter + mb);
    const Times used = actions.at(to + letter + mb);
    constexpr double nanosecond = 1e-3;
    EXPECT_LT(made.end, send.start + nanosecond);
    EXPECT_LT(send.start, receive.start + nanosecond);
    EXPECT_LT(receive.start, receive.end);
    EXPECT_LT(receive.end, used.start + nanosecond);
    ++messages;
  };
  for (int i = 0; i < 4; ++i) {
    expect_in_order("0", "1", "F", i);
    expect_in_order("1", "0", "B", i);
  }
  EXPECT_EQ(messages, 8);
}

// kill -9 of a rank while channels are opened and while they are used.
TEST_F(LinkedPipeexec, AKilledRankEndsAll) {
  for (const std::string& at : testing::tried<std::string>({"2", "5", "9", "18"}, 2)) {
    SCOPED_TRACE(at);
    const Outcome outcome = run_with_fault("kill:" + at, "60s");
    EXPECT_NE(outcome.err.find("process rank 1"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("signal 9"), std::string::npos) << outcome.err;
  }
}

// A rank that hangs, as by SIGSTOP: those next to it say what they wait for.
TEST_F(LinkedPipeexec, AHangingRankIsFoundOut) {
  const Outcome outcome = run_with_fault("stop:7", "500ms");
  const std::string& said = outcome.err;
  EXPECT_NE(said.find("rank 2: iteration 0, in its actions: 2F0 needs 2RECV_F0: waited 500.0 ms "
                      "for a message from rank 1"),
            std::string::npos)
      << said;
}

// A message that never comes, or is never taken. The middle rank opens four
// channels; then it posts F0, F1, B0 and F2 before it has F0 to send on.
TEST_F(LinkedPipeexec, AMessageThatNeverComesIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"lose:2", "could not open the channel to rank"},
      {"lose:5", "1F0 needs 1RECV_F0: "},
      {"lose:7", "1B0 needs 1RECV_B0: "},
      {"lose:9", "2F0 needs 2RECV_F0: waited 2000.0 ms for a message from rank 1"}};
  for (const auto& [fault, said] : cases) {
    const Outcome outcome = run_with_fault(fault, "2s");  // MPI has to start within it, too
    EXPECT_NE(outcome.err.find(said), std::string::npos) << fault << ": " << outcome.err;
  }
}

// The gradient of a tied matrix, after four channels and eight messages.
TEST_F(LinkedPipeexec, AGradientThatNeverComesIsNamed) {
  const Outcome outcome = run_with_fault("lose:13", "500ms", 2);
  EXPECT_NE(outcome.err.find(
                "rank 0: iteration 0, adding up tied gradients: waited 500.0 ms for a message "
                "from rank 1"),
            std::string::npos)
      << outcome.err;
}

TEST_F(LinkedPipeexec, WhatTheLibraryReportsEndsAll) {
  for (const char* at : {"2", "9"}) {
    const Outcome outcome = run_with_fault(std::string("fail:") + at, "60s");
    EXPECT_NE(outcome.err.find("the network is down"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("pipeexec: rank 1: "), std::string::npos) << outcome.err;
  }
}

TEST_F(LinkedPipeexec, RanksOnOneGpuAreReferredToMpi) {
  const Outcome outcome =
      run(2, {"--schedule", "1f1b", "--microbatches", "2"}, {"PIPESIM_EMULATED_NCCL_SAME_GPU=1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("ranks that share a GPU take --transport mpi"), std::string::npos)
      << outcome.err;
}

// What rank 0 makes first its neighbour would take for what it wants first.
TEST_F(LinkedPipeexec, OrdersThatDifferAreRefused) {
  write_file(folder_ / "crossed.csv",
             "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0RECV_B1,0B0,0B1\n"
             "1RECV_F1,1RECV_F0,1F1,1F0,1B1,1B0,1SEND_B0,1SEND_B1\n");
  const Outcome outcome = run(2, {"--schedule", folder_ / "crossed.csv"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("rank 0 sends 0SEND_F0 before 0SEND_F1, and rank 1 receives 1RECV_F1 "
                             "first"),
            std::string::npos)
      << outcome.err;
}

TEST_F(LinkedPipeexec, NeedsGpusOfItsKind) {
  const Outcome cpu = mpirun(
      1, {EMULATED_PIPEEXEC, "--transport", "nccl", "--schedule", "1f1b", "--microbatches", "2"});
  EXPECT_EQ(cpu.status, 2);
  EXPECT_NE(cpu.err.find("--transport nccl: it links devices of cuda, and 'cpu' is none"),
            std::string::npos)
      << cpu.err;
  const Outcome alone = run(1, {"--schedule", "1f1b", "--microbatches", "2"});
  EXPECT_EQ(alone.status, 0) << alone.err;
  const Outcome other =
      mpirun(1, command({"--transport", "rccl", "--schedule", "1f1b", "--microbatches", "2"}));
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(
      other.err.find("--transport rccl: libpipesim_hip.so is neither next to the program nor"),
      std::string::npos)
      << other.err;
}

TEST_F(LinkedPipeexec, OneTransportIsTheSameOnAllRanks) {
  auto all = command({"--schedule", "1f1b", "--microbatches", "2", "--transport", "nccl"});
  const auto other = command({"--schedule", "1f1b", "--microbatches", "2", "--transport", "mpi"});
  all.insert(all.end(), {":", "-n", "1"});
  all.insert(all.end(), other.begin(), other.end());
  const Outcome outcome = mpirun(1, all);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("rank 1: --transport differs from rank 0's"), std::string::npos)
      << outcome.err;
}

// The one with a GPU asks how ranks share hosts, and so the other one must.
TEST_F(LinkedPipeexec, OneKindOfDeviceIsTheSameOnAllRanks) {
  auto all = command({"--schedule", "1f1b", "--microbatches", "2", "--timeout", "20s"});
  auto other = all;
  std::ranges::replace(other, std::string("cuda"), std::string("cpu"));
  all.insert(all.end(), {":", "-n", "1"});
  all.insert(all.end(), other.begin(), other.end());
  const Outcome outcome = mpirun(1, all);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("rank 1: the device differs from rank 0's"), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace pipesim
