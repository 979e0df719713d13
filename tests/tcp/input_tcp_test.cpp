// Input pipelines with ranks as processes that TCP connects, and how they end where one is lost.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/tcp_world.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::Outcome;
using testing::ReservedPort;
using testing::RunningCommand;
using testing::TemporaryFolder;

RunningCommand start_rank(const ReservedPort& port, int rank, int ranks, const std::string& line) {
  std::vector<std::string> argv{PIPEEXEC_COMMAND,     "--transport", "tcp",
                                "--master",           port.master(), "--rank",
                                std::to_string(rank), "--ranks",     std::to_string(ranks)};
  std::istringstream in(line);
  for (std::string word; in >> word;) argv.push_back(word);
  return RunningCommand(argv);
}

std::vector<Outcome> run_ranks(const std::vector<std::string>& lines) {
  const ReservedPort port;
  std::vector<RunningCommand> all;
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    all.push_back(
        start_rank(port, static_cast<int>(rank), static_cast<int>(lines.size()), lines[rank]));
  }
  std::vector<Outcome> outcomes;
  for (RunningCommand& one : all) outcomes.push_back(one.outcome());
  return outcomes;
}

TEST(InputTcp, ProgramsGiveTheBitsOfOneRank) {
  for (const std::string program :
       {"sparse-dist --batch-size 700", "semi-sync --batch-size 60", "prefetch --batch-size 60"}) {
    const std::string line =
        "--input-pipeline " + program + " --batches 6 --epochs 2 --verify --json";
    const auto outcomes = run_ranks({line, line, line});
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(Json::parse(outcomes[0].out)["verify"]["bitwise"], true) << program;
    EXPECT_EQ(outcomes[1].out + outcomes[2].out, "");
  }
}

TEST(InputTcp, UnequalProgramsAreRefused) {
  const std::string line = "--input-pipeline sparse-dist --batch-size 8 --batches ";
  const auto outcomes = run_ranks({line + "6", line + "7"});
  EXPECT_EQ(outcomes[0].status, 2);
  EXPECT_EQ(outcomes[0].err,
            "pipeexec: rank 1: the command line differs from rank 0's; start all ranks with the "
            "same command\n");
  EXPECT_EQ(outcomes[0].out, "");
}

// Whether a rank of that job has its streams' threads. Processes may end while they are looked at.
bool has_streams(const ReservedPort& port, int rank) {
  std::error_code none;
  for (const auto& process : std::filesystem::directory_iterator("/proc", none)) {
    std::ifstream file(process.path() / "cmdline");
    const std::string words((std::istreambuf_iterator<char>(file)), {});
    const std::string own = std::string("--rank") + '\0' + std::to_string(rank) + '\0';
    if (words.find(port.master()) == std::string::npos || words.find(own) == std::string::npos) {
      continue;
    }
    const auto threads = std::filesystem::directory_iterator(process.path() / "task", none);
    return std::distance(begin(threads), end(threads)) > 3;
  }
  return false;
}

// A long run of so many ranks, the costs of which stand in a file.
std::string long_run(const TemporaryFolder& folder, int ranks, const std::string& timeout) {
  const std::string costs = folder / "costs.json";
  write_file(costs, R"({"format": "pipesim-costs", "version": 1, "ranks": )" +
                        std::to_string(ranks) + R"(, "work": {"TOP": {"duration_ns": 50000000}}})");
  return "--input-pipeline sparse-dist --batches 10000 --device emulated --costs " + costs +
         " --timeout " + timeout;
}

// Rank 1 is killed in the midst of a long run, which rank 0 would write down at its end.
TEST(InputTcp, ALostRankEndsTheOthers) {
  const TemporaryFolder folder;
  const std::string trace = folder / "trace.json";
  const ReservedPort port;
  const std::string line = long_run(folder, 2, "60s");
  RunningCommand first = start_rank(port, 0, 2, line + " --trace " + trace);
  RunningCommand second = start_rank(port, 1, 2, line);
  while (!has_streams(port, 1)) std::this_thread::yield();
  second.strike(SIGKILL);
  second.outcome();
  const Outcome outcome = first.outcome();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("lost rank 1"), std::string::npos) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(trace));
}

// Rank 1 stands still: the others wait for it no longer than they may.
TEST(InputTcp, AStoppedRankEndsTheOthers) {
  const TemporaryFolder folder;
  const std::string trace = folder / "trace.json";
  const ReservedPort port;
  const std::string line = long_run(folder, 3, "5s");
  RunningCommand first = start_rank(port, 0, 3, line + " --trace " + trace);
  RunningCommand second = start_rank(port, 1, 3, line);
  RunningCommand third = start_rank(port, 2, 3, line);
  while (!has_streams(port, 1)) std::this_thread::yield();
  second.strike(SIGSTOP);
  const Outcome outcomes[] = {first.outcome(), third.outcome()};
  second.strike(SIGCONT);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.out, "");
  }
  // Who is told of another's end before its own time is up, says so.
  const std::string said = outcomes[0].err + outcomes[1].err;
  EXPECT_NE(said.find("rank 1; --timeout allows no more"), std::string::npos) << said;
  EXPECT_EQ(second.outcome().status, 1);
  EXPECT_FALSE(std::filesystem::exists(trace));
}

}  // namespace
}  // namespace pipesim
