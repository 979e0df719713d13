// Jobs of MPI: the transport suite, and how pipeexec ends where a rank fails.
#include "exec/transport/mpi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/receives.h"
#include "tests/files.h"
#include "tests/mpi/mpirun.h"
#include "tests/random_layout.h"
#include "tests/thorough.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::mpirun;
using testing::Outcome;

Outcome suite(int ranks, std::vector<std::string> arguments,
              const std::vector<std::string>& environment = {}) {
  arguments.insert(arguments.begin(), PIPESIM_MPI_SUITE);
  return mpirun(ranks, arguments, environment);
}

Outcome pipeexec(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{
      PIPEEXEC_COMMAND,    "--schedule", "1f1b", "--warmup", "0", "--micro-batch-size", "1",
      "--sequence-length", "8"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return mpirun(ranks, argv);
}

// The lines of what a job said that are a program's own; MPI and mpirun add more.
std::string lines_of(const std::string& program, const std::string& text) {
  std::string lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.find(program + ": ") != std::string::npos) lines += line + "\n";
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return lines;
}

void expect_passed(const Outcome& outcome, int ranks) {
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(lines_of("mpi_suite", outcome.err), "");
  EXPECT_EQ(outcome.out, std::to_string(ranks) + " ranks passed\n");
}

class MpiSuite : public ::testing::TestWithParam<int> {};

TEST_P(MpiSuite, Passes) { expect_passed(suite(GetParam(), {}), GetParam()); }

TEST_P(MpiSuite, PassesWhereSendsWait) {
  for (const char* limit : {"0", "4096"}) {
    expect_passed(suite(GetParam(), {"--eager-limit", limit}), GetParam());
  }
}

// The least that Open MPI's shared memory takes.
TEST_P(MpiSuite, PassesWhereMpiSendsNothingEagerly) {
  expect_passed(suite(GetParam(), {}, {"OMPI_MCA_btl_vader_eager_limit=56"}), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Mpi, MpiSuite, ::testing::Values(1, 2, 4));

TEST(MpiJob, RandomLayoutsGiveWhatOneRankGives) {
  const testing::TemporaryFolder folder;
  std::mt19937_64 random(9);
  for (int i = 0; i < testing::random_layouts(4); ++i) {
    const testing::RandomLayout layout = testing::random_layout(random, folder);
    std::vector<std::string> argv{PIPEEXEC_COMMAND};
    argv.insert(argv.end(), layout.flags.begin(), layout.flags.end());
    const Outcome outcome = mpirun(layout.ranks, argv);
    ASSERT_EQ(outcome.status, 0) << i << ": " << layout.text() << "\n" << outcome.err;
    EXPECT_NE(outcome.out.find("\"bitwise\": true"), std::string::npos)
        << i << ": " << layout.text();
  }
}

// The library adds in its own order: not the same bits, but nearly the same numbers.
TEST(MpiJob, ALibrarysSumsAreNearThem) {
  for (const std::string split :
       {"", "--bucket-bytes 2kB", "--zero 1", "--zero 2 --shard-over 2", "--zero 3"}) {
    std::vector<std::string> flags{"--microbatches",  "2",     "--iterations", "3",
                                   "--data-parallel", "4",     "--reduce",     "library",
                                   "--verify",        "--json"};
    std::istringstream in(split);
    for (std::string word; in >> word;) flags.push_back(word);
    const Outcome outcome = pipeexec(4, flags);
    ASSERT_EQ(outcome.status, 0) << split << "\n" << outcome.err;
    const auto json = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(json["reduce"], "library");
    EXPECT_EQ(json["losses"].size(), 3);
    EXPECT_LE(json["verify"]["outcome_rel_error"], 1e-5) << split;
    EXPECT_LT(json["verify"]["max_abs_error"], 1e-3) << split;  // a step's length
  }
}

TEST(MpiJob, AFailureOfOneRankIsToldOnceAndEndsAll) {
  for (const char* rank : {"0", "1", "2"}) {
    const Outcome outcome = suite(3, {"--fail", rank});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(lines_of("mpi_suite", outcome.err),
              std::string("mpi_suite: rank ") + rank + ": the device is gone\n");
  }
}

TEST(MpiJob, WhatRanksAgreeOnIsToldByTheFirst) {
  const Outcome outcome = suite(3, {"--disagree", "1"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(lines_of("mpi_suite", outcome.err), "mpi_suite: rank 1: no such file\n");
}

Outcome fault(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{PIPESIM_JOB_FAULT};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return mpirun(ranks, argv);
}

// kill -9 of any rank, in warm-up, steady state, cool-down and reduction: the
// job ends, says which rank it was, and leaves no half of a trace.
TEST(MpiFault, AKilledRankEndsAll) {
  const testing::TemporaryFolder folder;
  struct Strike {
    std::string rank, at;
  };
  std::vector<Strike> strikes;
  for (const std::string rank : {"0", "1", "2"}) {
    // Rank 1 sends 8 results an iteration, the ends 4.
    for (const std::string at : {"1", "3", rank == "1" ? "8" : "4", "0"}) {
      strikes.push_back({rank, at});
    }
  }
  for (const auto& [rank, at] : testing::tried(strikes, 5)) {
    SCOPED_TRACE("rank " + rank + " at send " + at);
    const Outcome outcome =
        fault(3, {"--rank", rank, "--signal", "9", "--at", at, "--trace", folder / "trace.json"});
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("process rank " + rank), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("signal 9"), std::string::npos) << outcome.err;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
}

// A rank that hangs, as by SIGSTOP: every other one says what it waits for,
// those next to it that it is this rank, and the job ends. mpirun lets it go on before it ends it,
// so that it may have something to say, too, but not first.
TEST(MpiFault, AHangingRankIsFoundOut) {
  for (const char* at : {"3", "0"}) {
    const Outcome outcome = fault(
        3, {"--rank", "1", "--signal", std::to_string(SIGSTOP), "--at", at, "--timeout", "500"});
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(outcome.out, "");
    const std::string said = lines_of("job_fault", outcome.err);
    EXPECT_NE(said.find("job_fault: rank 0: iteration 0, "), std::string::npos) << said;
    EXPECT_NE(said.find("job_fault: rank 2: iteration 0, "), std::string::npos) << said;
    EXPECT_NE(said.find("waited 500.0 ms for a message from rank 1"), std::string::npos) << said;
    // Ranks 0 and 2 speak by themselves; rank 1 only once one of them has ended the job.
    const std::size_t woken = said.find("job_fault: rank 1: iteration");
    const std::size_t first = std::min(said.find("job_fault: rank 0: iteration"),
                                       said.find("job_fault: rank 2: iteration"));
    EXPECT_LT(first, woken) << said;
    if (at[0] == '3') {
      EXPECT_NE(said.find("2F2 needs 2RECV_F2"), std::string::npos) << said;
    }
  }
}

// Rank 1, lost in an exchange with rank 0: its end names it, and where it only stands still rank 0
// says at which action it waits.
void expect_named(int ranks, const std::vector<std::string>& job, const std::string& action) {
  const auto struck_by = [&](int signal) {
    std::vector<std::string> arguments{"--rank",    "1",  "--signal", std::to_string(signal),
                                       "--timeout", "500"};
    arguments.insert(arguments.end(), job.begin(), job.end());
    Outcome outcome = fault(ranks, arguments);
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(outcome.out, "");
    return outcome;
  };
  const std::string killed = struck_by(SIGKILL).err;
  EXPECT_NE(killed.find("process rank 1"), std::string::npos) << killed;
  const std::string stopped = lines_of("job_fault", struck_by(SIGSTOP).err);
  EXPECT_NE(stopped.find("job_fault: rank 0: iteration 0, in its actions: " + action +
                         ": waited 500.0 ms for a message from rank 1"),
            std::string::npos)
      << stopped;
}

// In the reduction of gradients over replicas: ranks 0 and 1 have the first stage.
TEST(MpiFault, AReplicaThatIsLostIsNamed) {
  expect_named(4, {"--replicas", "2", "--at", "5"}, "0REDUCE_GRAD");
}

// In a sum within an action: ranks 0 and 1 have shards of the same layers.
TEST(MpiFault, ATensorParallelRankThatIsLostIsNamed) {
  expect_named(2, {"--shards", "2", "--at", "7"}, "0F0, all-reduce of tensor-parallel ranks");
}

TEST(MpiPipeexec, AStartThatLacksARankEnds) {
  const Outcome outcome = testing::mpirun(
      2, {"/bin/sh", "-c",
          "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then exec tail -f /dev/null; fi; exec \"$0\" \"$@\"",
          PIPEEXEC_COMMAND, "--schedule", "1f1b", "--microbatches", "2", "--timeout", "1s"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.err.find("pipeexec: rank 0: waited 1000.0 ms for MPI to start"),
            std::string::npos)
      << outcome.err;
}

TEST(MpiPipeexec, AWrongInputEndsItBeforeTraining) {
  const Outcome number = pipeexec(3, {"--microbatches", "x"});
  EXPECT_EQ(number.status, 2);
  EXPECT_EQ(lines_of("pipeexec", number.err),
            "pipeexec: --microbatches: 'x' is not a whole number\n");
  const Outcome flag = pipeexec(3, {"--microbatch", "4"});
  EXPECT_EQ(flag.status, 2);
  EXPECT_EQ(lines_of("pipeexec", flag.err).find("pipeexec: unknown flag '--microbatch'"), 0U);
  const Outcome trace = pipeexec(3, {"--microbatches", "4", "--trace", "/no/such/folder/x.json"});
  EXPECT_EQ(trace.status, 2);
  EXPECT_EQ(lines_of("pipeexec", trace.err),
            "pipeexec: cannot write '/no/such/folder/x.json': No such file or directory\n");
}

TEST(MpiPipeexec, OtherRanksMustRunTheSame) {
  const Outcome outcome = pipeexec(1, {"--microbatches", "4", ":", "-n", "1", PIPEEXEC_COMMAND,
                                       "--schedule", "1f1b", "--microbatches", "8"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(lines_of("pipeexec", outcome.err),
            "pipeexec: rank 1: the command line differs from rank 0's; start all ranks with the "
            "same command\n");
}

// A small trace is written once all ranks are done, a large one while they
// still send what belongs in it.
TEST(MpiPipeexec, AFullDiskEndsIt) {
  const Outcome small =
      pipeexec(2, {"--microbatches", "2", "--iterations", "1", "--trace", "/dev/full"});
  EXPECT_EQ(small.status, 1);
  EXPECT_EQ(lines_of("pipeexec", small.err),
            "pipeexec: cannot write '/dev/full': No space left on device\n");
  const Outcome large =
      pipeexec(2, {"--microbatches", "64", "--iterations", "8", "--trace", "/dev/full"});
  EXPECT_EQ(large.status, 1);
  EXPECT_EQ(lines_of("pipeexec", large.err),
            "pipeexec: rank 0: cannot write '/dev/full': No space left on device\n");
}

TEST(MpiPipeexec, ARankWithAnotherCommandLineIsNamed) {
  const Outcome outcome = pipeexec(2, {"--microbatches", "4", ":", "-n", "1", PIPEEXEC_COMMAND,
                                       "--schedule", "1f1b", "--microbatch", "4"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(lines_of("pipeexec", outcome.err).find("pipeexec: rank 2: unknown flag '--microbatch'"),
            0U);
}

TEST(MpiPipeexec, EveryKindOfScheduleGivesWhatOneRankGives) {
  const auto verify = [](int ranks, const std::vector<std::string>& schedule) {
    std::vector<std::string> arguments{PIPEEXEC_COMMAND,
                                       "--iterations",
                                       "1",
                                       "--warmup",
                                       "0",
                                       "--micro-batch-size",
                                       "1",
                                       "--sequence-length",
                                       "8",
                                       "--verify",
                                       "--json",
                                       "--schedule"};
    arguments.insert(arguments.end(), schedule.begin(), schedule.end());
    for (const char* limit : {"56", "4096"}) {  // Open MPI's own
      const std::string setting = std::string("OMPI_MCA_btl_vader_eager_limit=") + limit;
      const Outcome outcome = mpirun(ranks, arguments, {setting});
      EXPECT_EQ(outcome.status, 0) << outcome.err;
      EXPECT_NE(outcome.out.find("\"bitwise\": true"), std::string::npos) << schedule.front();
    }
  };
  verify(2, {"interleaved", "--microbatches", "4"});
  verify(3, {"gpipe", "--microbatches", "2"});
  verify(4, {"zb-h2", "--microbatches", "6"});
  verify(2, {"zb-v", "--microbatches", "3"});
  verify(3, {"v-half", "--microbatches", "4"});
  verify(2, {"dualpipe-v", "--microbatches", "4"});
  verify(4, {"dualpipe", "--microbatches", "8"});
  verify(4, {testing::golden("dualpipev_4rank_10mb.csv")});
  // Wherever receives stand.
  const testing::TemporaryFolder folder;
  const Schedule program = lower(generate({.name = "1f1b", .ranks = 3, .microbatches = 4}));
  for (const Receives where : {Receives::early, Receives::batched}) {
    const std::string file = folder / "program.csv";
    write_file(file, to_csv(place_receives(program, where)));
    verify(3, {file});
  }
}

TEST(MpiPipeexec, ReplicasGiveWhatOneRankGives) {
  for (const std::string zero : {"0", "1", "2", "3"}) {
    const Outcome outcome =
        pipeexec(4, {"--data-parallel", "2", "--microbatches", "2", "--iterations", "2", "--zero",
                     zero, "--eager-limit", zero == "1" ? "0" : "4096B", "--verify", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("\"bitwise\": true"), std::string::npos) << outcome.out;
  }
  const Outcome outcome = pipeexec(4, {"--data-parallel", "3", "--microbatches", "2"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(lines_of("pipeexec", outcome.err)
                .find("--data-parallel 3: 4 ranks can't be divided among 3 replicas; start a "
                      "multiple of 3"),
            std::string::npos)
      << outcome.err;
}

TEST(MpiPipeexec, GivesWhatOneRankGives) {
  const testing::TemporaryFolder folder;
  const Outcome outcome =
      pipeexec(4, {"--microbatches", "4", "--iterations", "1", "--eager-limit", "0", "--verify",
                   "--json", "--trace", folder / "trace.json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(lines_of("pipeexec", outcome.err), "");
  EXPECT_NE(outcome.out.find("\"bitwise\": true"), std::string::npos) << outcome.out;
  EXPECT_NE(read_file(folder / "trace.json").find("\"transport\":\"mpi\""), std::string::npos);
}

// The script of examples/ranks, with its host file.
TEST(MpiExamples, AHostFileStartsItsRanks) {
  const std::string pipeexec = PIPEEXEC_COMMAND;
  const Outcome outcome = testing::run_command(
      {"/bin/bash", testing::source_file("examples/ranks/by_mpirun.sh"), "--list-ranks"},
      {"PATH=" + pipeexec.substr(0, pipeexec.rfind('/')) + ":" + std::getenv("PATH"),
       "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
       "OMPI_MCA_rmaps_base_oversubscribe=1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("2 ranks, transport mpi\n")) << outcome.out;
}

// Slurm's variables, and an MPI that srun has not told of them: each process would train by
// itself.
TEST(MpiPipeexec, ALauncherThatMpiDoesNotKnowEndsIt) {
  const std::vector<std::string> line{PIPEEXEC_COMMAND, "--schedule", "1f1b", "--microbatches", "2",
                                      "--transport",    "mpi"};
  const Outcome first =
      testing::run_command(line, {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_LOCALID=0"});
  testing::expect_one_sentence(
      first, "pipeexec", "", 2,
      "srun has started this as rank 0 of 2, but to MPI it is rank 0 of 1");
  const Outcome second =
      testing::run_command(line, {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=1"});
  EXPECT_EQ(second.out + second.err, "");
}

// Open MPI would end it, and say more.
TEST(MpiPipeexec, ARankThatSrunDoesNotConnectIsToldHow) {
  if (!exec::mpi_needs_pmix()) GTEST_SKIP() << "no Open MPI, or in a job of MPI";
  const std::vector<std::string> line{PIPEEXEC_COMMAND, "--schedule", "1f1b", "--microbatches",
                                      "2"};
  const std::vector<std::string> step{"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_NTASKS=2"};
  std::vector<std::string> first = step;
  first.emplace_back("SLURM_PROCID=0");
  testing::expect_one_sentence(testing::run_command(line, first), "pipeexec", "", 2,
                               "srun has started this without --mpi=pmix");
  std::vector<std::string> second = step;
  second.emplace_back("SLURM_PROCID=1");
  const Outcome other = testing::run_command(line, second);
  EXPECT_EQ(other.out + other.err, "");
}

}  // namespace
}  // namespace pipesim
