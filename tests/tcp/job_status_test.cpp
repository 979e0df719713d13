// How the ranks of a job end: all with the same exit status, and rank 0 with the words of the one
// that failed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/tcp_world.h"
#include "tests/words.h"

namespace pipesim {
namespace {

using testing::Outcome;
using testing::ReservedPort;
using testing::RunningCommand;
using testing::TemporaryFolder;

constexpr int ranks = 3;
const std::string training =
    "--schedule 1f1b --microbatches 3 --micro-batch-size 1 --sequence-length 8 --iterations 500 "
    "--warmup 0 --checkpoint-every 1 --timeout 60s --quiet";
const std::string input =
    "--input-pipeline semi-sync --batches 500 --batch-size 8 --checkpoint-every 2 --timeout 60s "
    "--quiet";

// Ranks that save below `folder`; what strikes the last of them at a step of its disk.
std::vector<Outcome> run_job(const TemporaryFolder& folder, const std::string& line,
                             const std::string& fault, const std::string& errors_of_last = "") {
  const ReservedPort port;
  std::vector<RunningCommand> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool is_last = rank == ranks - 1;
    std::vector<std::string> argv{PIPEEXEC_COMMAND};
    if (is_last && !errors_of_last.empty()) {
      argv = {"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>" + errors_of_last, PIPEEXEC_COMMAND};
    }
    for (std::string& word : testing::words(
             fmt::format("{} --checkpoint {} --transport tcp --master {} --rank {} --ranks {}",
                         line, folder / "ck", port.master(), rank, ranks))) {
      argv.push_back(std::move(word));
    }
    std::vector<std::string> environment;
    if (is_last) {
      environment = {"LD_PRELOAD=" PIPESIM_FAILING_DISK, "PIPESIM_FAULT=" + fault,
                     "PIPESIM_FAULT_AT=3", "PIPESIM_FAULT_FOLDER=" + (folder / "ck")};
    }
    all.emplace_back(argv, environment);
  }
  std::vector<Outcome> outcomes;
  for (RunningCommand& one : all) outcomes.push_back(one.outcome());
  return outcomes;
}

TEST(JobStatus, AllRanksEndWithTheSignalThatOneGot) {
  for (const std::string& line : {training, input}) {
    const TemporaryFolder folder;
    const auto outcomes = run_job(folder, line, "term");
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 128 + 15) << outcome.err;
    EXPECT_TRUE(outcomes[0].err.starts_with("pipeexec: stopped by signal 15 after "))
        << outcomes[0].err;
  }
}

// Nobody hears the failing rank itself: its standard error is full, too.
TEST(JobStatus, TheWordsOfTheRankThatFailsReachRank0) {
  for (const std::string& line : {training, input}) {
    const TemporaryFolder folder;
    const auto outcomes = run_job(folder, line, "full", "/dev/full");
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_TRUE(outcomes[0].err.starts_with("pipeexec: rank 0: rank 2 failed: "))
        << outcomes[0].err;
    EXPECT_NE(outcomes[0].err.find("No space left on device"), std::string::npos)
        << outcomes[0].err;
  }
}

// It has none.
TEST(JobStatus, NoWordsArePromisedOfAKilledRank) {
  const TemporaryFolder folder;
  const auto outcomes = run_job(folder, training, "kill");
  EXPECT_EQ(outcomes[0].status, 1);
  EXPECT_EQ(outcomes[1].status, 1);
  EXPECT_NE(outcomes[0].err.find("its process has ended, or its host can't be reached"),
            std::string::npos)
      << outcomes[0].err;
}

// What all agree on: only rank 0 speaks to a launcher, and all end like it.
TEST(JobStatus, AllRanksOfALauncherEndWithTheErrorThatTheyAgreeOn) {
  const ReservedPort port;
  std::vector<RunningCommand> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.emplace_back(std::vector<std::string>{PIPEEXEC_COMMAND, "--schedule", "no-such"},
                     std::vector<std::string>{
                         fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", ranks),
                         "MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", port.number())});
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Outcome outcome = all[rank].outcome();
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.err.empty(), rank > 0) << outcome.err;
  }
}

}  // namespace
}  // namespace pipesim
