// A training of MPI whose rank is killed: supervised, it comes to the same end as if nothing had
// been.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/files.h"
#include "tests/mpi/mpirun.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::Outcome;

// Each iteration takes 20 ms at least, so that the rank is killed before the last.
std::vector<std::string> training(const std::string& more) {
  std::vector<std::string> argv{PIPEEXEC_COMMAND};
  std::istringstream in(
      "--schedule 1f1b --microbatches 2 --micro-batch-size 1 --sequence-length 8 --warmup 0 "
      "--iterations 150 --faults pause@0F0=20ms --json " +
      more);
  for (std::string word; in >> word;) argv.push_back(word);
  return argv;
}

Outcome supervised(const std::vector<std::string>& flags, const std::string& folder) {
  std::vector<std::string> argv{PIPEEXEC_COMMAND, "supervise"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  argv.insert(argv.end(), {"--", PIPESIM_MPIEXEC, "--oversubscribe", "-n", "2"});
  const std::vector<std::string> command =
      training("--checkpoint " + folder + " --checkpoint-every 10");
  argv.insert(argv.end(), command.begin(), command.end());
  return testing::run_command(argv,
                              {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
}

TEST(SupervisedJob, EndsAsIfNoRankHadDied) {
  const testing::TemporaryFolder folder;
  const Outcome undisturbed = testing::mpirun(2, training(""));
  ASSERT_EQ(undisturbed.status, 0) << undisturbed.err;
  const Outcome outcome =
      supervised({"--kill-at", "2500ms", "--trace", folder / "trace.json"}, folder / "ck");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["losses"], Json::parse(undisturbed.out)["losses"]);
  const Json trace = Json::parse(read_file(folder / "trace.json"));
  std::vector<std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") names.push_back(event["name"]);
  }
  EXPECT_EQ(names, std::vector<std::string>({"attempt 1", "attempt 2", "kill", "restart"}));
}

// What has ended is not begun again.
TEST(SupervisedJob, FindsNothingLeftToDo) {
  const testing::TemporaryFolder folder;
  ASSERT_EQ(supervised({}, folder / "ck").status, 0);
  const Outcome again = supervised({"--restarts", "0"}, folder / "ck");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.err.find("no iteration was done"), std::string::npos) << again.err;
}

}  // namespace
}  // namespace pipesim
