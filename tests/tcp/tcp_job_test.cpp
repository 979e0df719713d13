// Processes that TCP connects, started as a user would: what they train, how they are told
// their ranks, and how they end where one fails.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/receives.h"
#include "tests/command.h"
#include "tests/files.h"
#include "tests/random_layout.h"
#include "tests/tcp_world.h"
#include "tests/words.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::Outcome;
using testing::ReservedPort;
using testing::RunningCommand;

// What becomes of processes once all have ended.
std::vector<Outcome> outcomes_of(std::vector<RunningCommand>& all) {
  std::vector<Outcome> outcomes;
  outcomes.reserve(all.size());
  for (RunningCommand& one : all) outcomes.push_back(one.outcome());
  return outcomes;
}

RunningCommand start_process(const std::string& line,
                             const std::vector<std::string>& environment = {}) {
  std::vector<std::string> argv{PIPEEXEC_COMMAND, "--transport", "tcp"};
  for (std::string& word : testing::words(line)) argv.push_back(std::move(word));
  return RunningCommand(argv, environment);
}

std::string by_hand(const ReservedPort& port, int rank, int ranks) {
  return " --master " + port.master() + " --rank " + std::to_string(rank) + " --ranks " +
         std::to_string(ranks);
}

std::vector<std::string> as_by_torchrun(const ReservedPort& port, int rank, int ranks) {
  return {"RANK=" + std::to_string(rank), "LOCAL_RANK=" + std::to_string(rank),
          "WORLD_SIZE=" + std::to_string(ranks), "MASTER_ADDR=127.0.0.1",
          "MASTER_PORT=" + std::to_string(port.number())};
}

std::vector<Outcome> run_by_hand(int ranks, const std::string& line) {
  const ReservedPort port;
  std::vector<RunningCommand> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(start_process(line + by_hand(port, rank, ranks)));
  return outcomes_of(all);
}

// Rank 0 speaks, and all end well.
Outcome run_well(int ranks, const std::string& line) {
  const auto outcomes = run_by_hand(ranks, line);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status, 0) << line;
    EXPECT_EQ(outcome.err, "") << line;
    if (&outcome != &outcomes.front()) {
      EXPECT_EQ(outcome.out, "") << line;
    }
  }
  return outcomes.front();
}

void expect_sentence(const Outcome& outcome, int status, const std::string& part) {
  testing::expect_one_sentence(outcome, "pipeexec", "", status, part);
}

const std::string tiny = " --iterations 1 --warmup 0 --micro-batch-size 1 --sequence-length 8";

TEST(TcpPipeexec, EveryKindOfScheduleGivesWhatOneRankGives) {
  const auto verify = [](int ranks, const std::string& schedule) {
    const Outcome outcome = run_well(ranks, "--verify --json --schedule " + schedule + tiny);
    EXPECT_EQ(Json::parse(outcome.out)["verify"]["bitwise"], true) << schedule;
  };
  verify(1, "1f1b --microbatches 2");
  verify(2, "interleaved --microbatches 4");
  verify(3, "gpipe --microbatches 2 --eager-limit 0");
  verify(4, "zb-h2 --microbatches 6");
  verify(2, "zb-v --microbatches 4");
  verify(4, "v-half --microbatches 5");
  verify(3, "v-min --microbatches 4");
  verify(3, "dualpipe-v --microbatches 7");
  verify(2, "dualpipe --microbatches 6");
  verify(4, testing::golden("dualpipev_4rank_10mb.csv"));
  // Wherever receives stand.
  const testing::TemporaryFolder folder;
  const Schedule program = lower(generate({.name = "1f1b", .ranks = 3, .microbatches = 4}));
  for (const Receives where : {Receives::just_in_time, Receives::early, Receives::batched}) {
    const std::string file = folder / "program.csv";
    write_file(file, to_csv(place_receives(program, where)));
    verify(3, file + " --eager-limit 0");
  }
}

TEST(TcpPipeexec, SoDoRandomLayouts) {
  const testing::TemporaryFolder folder;
  std::mt19937_64 random(8);
  for (int i = 0; i < testing::random_layouts(6); ++i) {
    const testing::RandomLayout layout = testing::random_layout(random, folder);
    const Outcome outcome = run_well(layout.ranks, layout.text());
    ASSERT_EQ(outcome.status, 0) << i << ": " << layout.text();
    EXPECT_EQ(Json::parse(outcome.out)["verify"]["bitwise"], true) << i << ": " << layout.text();
  }
}

TEST(TcpPipeexec, LargeMessagesGiveIt) {
  const testing::TemporaryFolder folder;
  const std::string trace = folder / "trace.json";
  const Outcome outcome =
      run_well(2,
               "--verify --json --schedule 1f1b --microbatches 3 --iterations 2 --warmup 0 "
               "--micro-batch-size 8 --trace " +
                   trace);  // 256 KiB
  EXPECT_EQ(Json::parse(outcome.out)["verify"]["bitwise"], true);
  EXPECT_NE(read_file(trace).find("\"transport\":\"tcp\""), std::string::npos);
}

TEST(TcpPipeexec, LaunchersTellRanksAndLocalRanks) {
  const ReservedPort port;
  std::vector<RunningCommand> all;
  all.push_back(start_process("--list-ranks --json", as_by_torchrun(port, 0, 3)));
  // Conflicting variables: torchrun's count, by the rule in help.
  std::vector<std::string> both = as_by_torchrun(port, 1, 3);
  for (const char* more : {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_LOCALID=7"}) {
    both.emplace_back(more);
  }
  all.push_back(start_process("--list-ranks --json", both));
  // Slurm's, with the master of a flag.
  all.push_back(start_process("--list-ranks --json --master " + port.master(),
                              {"SLURM_PROCID=2", "SLURM_NTASKS=3", "SLURM_LOCALID=5"}));
  const auto outcomes = outcomes_of(all);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
  }
  const Json json = Json::parse(outcomes[0].out);
  EXPECT_EQ(json["transport"], "tcp");
  ASSERT_EQ(json["ranks"].size(), 3);
  const int local_ranks[] = {0, 1, 5};
  for (int rank = 0; rank < 3; ++rank) {
    const Json& own = json["ranks"][static_cast<std::size_t>(rank)];
    EXPECT_EQ(own["rank"], rank);
    EXPECT_EQ(own["local_rank"], local_ranks[rank]);
    EXPECT_EQ(own["coordinates"]["pipeline"], rank);
  }
}

TEST(TcpPipeexec, ListsRanks) {
  const Outcome outcome = run_well(2, "--list-ranks --device emulated");
  EXPECT_TRUE(
      outcome.out.starts_with("2 ranks, transport tcp\n\n"
                              "rank  pipeline  data  tensor  local  host"))
      << outcome.out;
  EXPECT_NE(outcome.out.find("\n   1         1     0       0      1  "), std::string::npos);
  EXPECT_TRUE(outcome.out.ends_with("  emulated\n")) << outcome.out;
}

TEST(TcpPipeexec, WhatRanksAgreeOnIsToldByEach) {
  const auto outcomes = run_by_hand(3, "--schedule no-such --microbatches 2");
  for (const Outcome& outcome : outcomes) expect_sentence(outcome, 2, "unknown schedule");
  const ReservedPort port;
  std::vector<RunningCommand> launched;
  for (int rank = 0; rank < 2; ++rank) {
    launched.push_back(
        start_process("--schedule no-such --microbatches 2", as_by_torchrun(port, rank, 2)));
  }
  const auto ends = outcomes_of(launched);
  expect_sentence(ends[0], 2, "unknown schedule");
  EXPECT_EQ(ends[1].err, "");  // the launcher waits for rank 0
}

TEST(TcpPipeexec, ContradictionsEndItBeforeTraining) {
  const std::string line = "--schedule 1f1b --microbatches 2" + tiny;
  {
    const ReservedPort port;
    std::vector<RunningCommand> all;
    all.push_back(start_process(line + by_hand(port, 0, 3)));
    for (int times = 0; times < 2; ++times)
      all.push_back(start_process(line + by_hand(port, 1, 3)));
    for (const Outcome& outcome : outcomes_of(all)) {
      expect_sentence(outcome, 2,
                      "two processes, at 127.0.0.1 and at 127.0.0.1, both came as rank 1");
    }
  }
  {
    const ReservedPort port;
    std::vector<RunningCommand> all;
    all.push_back(start_process(line + by_hand(port, 0, 2)));
    all.push_back(start_process(line + by_hand(port, 1, 3)));
    for (const Outcome& outcome : outcomes_of(all)) {
      expect_sentence(outcome, 2, "was started as one of 3, and rank 0 as one of 2");
    }
  }
  {
    const ReservedPort port;
    std::vector<RunningCommand> all;
    all.push_back(start_process(line + by_hand(port, 0, 2)));
    all.push_back(start_process("--schedule 1f1b --microbatches 4" + tiny + by_hand(port, 1, 2)));
    for (const Outcome& outcome : outcomes_of(all)) {
      expect_sentence(outcome, 2, "rank 1: the command line differs from rank 0's");
    }
  }
}

TEST(TcpPipeexec, AnAbsentRankIsNamed) {
  const ReservedPort port;
  const std::string line = "--schedule 1f1b --microbatches 2 --timeout 2s";
  std::vector<RunningCommand> all;
  for (const int rank : {0, 1}) all.push_back(start_process(line + by_hand(port, rank, 3)));
  for (const Outcome& outcome : outcomes_of(all)) {
    expect_sentence(outcome, 1, "waited 2000.0 ms for rank 2 of 3 to come to " + port.master());
  }
}

// Of two jobs at one port, each has a token; a flag counts more than the environment.
TEST(TcpPipeexec, TokensKeepOtherJobsOut) {
  const ReservedPort port;
  const std::string line = "--list-ranks --timeout 60s";
  RunningCommand first = start_process(line + by_hand(port, 0, 2), {"PIPEEXEC_TOKEN=one"});
  RunningCommand none = start_process(line + by_hand(port, 1, 2));
  RunningCommand two =
      start_process(line + " --token two" + by_hand(port, 1, 2), {"PIPEEXEC_TOKEN=one"});
  expect_sentence(none.outcome(), 2, "came with another token than rank 0's");
  expect_sentence(two.outcome(), 2, "came with another token than rank 0's");
  RunningCommand second = start_process(line + " --token one" + by_hand(port, 1, 2));
  EXPECT_EQ(second.outcome().status, 0);
  EXPECT_TRUE(first.outcome().out.starts_with("2 ranks, transport tcp"));
}

TEST(TcpPipeexec, RefusesWhatDoesNotTellARank) {
  const auto refused = [](const std::string& line, const std::string& part) {
    RunningCommand own = start_process("--schedule 1f1b --microbatches 2 " + line);
    expect_sentence(own.outcome(), 2, part);
  };
  refused("", "which rank is this?");
  refused("--rank 0", "--ranks is missing");
  refused("--ranks 2", "--rank is missing");
  refused("--rank 2 --ranks 2",
          "--rank: '2' is not a whole number from 0 below --ranks, which is 2");
  refused("--rank 0 --ranks 2", "--master is missing");
  refused("--rank 0 --ranks 2 --master node1", "'node1' is not HOST:PORT");
  refused("--rank 0 --ranks 9999 --master a:1", "9999 ranks; at most 1024");
  expect_sentence(testing::run_command(
                      {PIPEEXEC_COMMAND, "--schedule", "1f1b", "--stages", "2", "--rank", "0"}),
                  2, "--rank: only --transport tcp is told its ranks");
}

// ---- A rank that fails

struct Job {
  ReservedPort port;
  std::vector<RunningCommand> ranks;
};

void start_fault(Job& job, int ranks, const std::string& line) {
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> argv{PIPESIM_JOB_FAULT, "--port", std::to_string(job.port.number())};
    for (std::string& word : testing::words(line)) argv.push_back(std::move(word));
    job.ranks.emplace_back(argv, as_by_torchrun(job.port, rank, ranks));
  }
}

// kill -9 of any rank, in warm-up, steady state, cool-down and reduction: every other ends
// soon, names it, and leaves no half of a trace.
TEST(TcpFault, AKilledRankEndsAll) {
  const testing::TemporaryFolder folder;
  for (int struck = 0; struck < 3; ++struck) {
    // Rank 1 sends 8 results an iteration, the ends 4.
    for (const int at : {1, 3, struck == 1 ? 8 : 4, 0}) {
      SCOPED_TRACE("rank " + std::to_string(struck) + " at send " + std::to_string(at));
      Job job;
      start_fault(job, 3,
                  "--rank " + std::to_string(struck) + " --signal 9 --at " + std::to_string(at) +
                      " --trace " + (folder / "trace.json"));
      const auto outcomes = outcomes_of(job.ranks);
      for (int rank = 0; rank < 3; ++rank) {
        const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
        EXPECT_EQ(outcome.out, "");
        if (rank == struck) {
          EXPECT_EQ(outcome.status, 128 + 9);
          continue;
        }
        EXPECT_EQ(outcome.status, 1);
        const std::string who = "rank " + std::to_string(struck);
        EXPECT_TRUE(outcome.err.find("lost " + who) != std::string::npos ||
                    outcome.err.find(who + " failed") != std::string::npos)
            << outcome.err;
      }
      // Rank 0's own, killed, can't be taken away.
      if (struck != 0) {
        EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
      }
      for (const auto& left : std::filesystem::directory_iterator(folder.path())) {
        EXPECT_NE(left.path().filename(), "trace.json");
        std::filesystem::remove(left.path());
      }
    }
  }
}

// A rank that hangs, as by SIGSTOP: every other one says what it waits for, those next to it
// that it is this rank, and ends.
TEST(TcpFault, AHangingRankIsFoundOut) {
  for (const int at : {3, 0}) {
    Job job;
    start_fault(job, 3,
                "--rank 1 --signal " + std::to_string(SIGSTOP) + " --at " + std::to_string(at) +
                    " --timeout 500");
    std::string said;
    for (const std::size_t rank : {0U, 2U}) {
      const Outcome outcome = job.ranks[rank].outcome();
      EXPECT_EQ(outcome.status, 1);
      EXPECT_EQ(outcome.out, "");
      said += outcome.err;
    }
    job.ranks[1].strike(SIGKILL);
    job.ranks[1].outcome();
    EXPECT_NE(said.find("job_fault: rank 0: iteration 0, "), std::string::npos) << said;
    EXPECT_NE(said.find("job_fault: rank 2: iteration 0, "), std::string::npos) << said;
    EXPECT_NE(said.find("waited 500.0 ms for a message from rank 1"), std::string::npos) << said;
  }
}

// One that is let go on hears what has become of the others, and ends by itself.
TEST(TcpFault, ARankThatWakesUpTooLateEnds) {
  Job job;
  start_fault(job, 2, "--rank 1 --signal " + std::to_string(SIGSTOP) + " --at 2 --timeout 300");
  EXPECT_EQ(job.ranks[0].outcome().status, 1);
  job.ranks[1].strike(SIGCONT);
  const Outcome late = job.ranks[1].outcome();
  EXPECT_EQ(late.status, 1);
  EXPECT_NE(late.err.find("rank 0 failed: iteration 0, "), std::string::npos) << late.err;
}

}  // namespace
}  // namespace pipesim
