// The scripts of examples/ranks, run as a user would. torchrun and Slurm are stand-ins that
// set what these set.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/tcp_world.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::Outcome;

// Runs one with programs of `folder` and this build's on the path.
Outcome example(const std::string& name, const std::vector<std::string>& arguments,
                std::vector<std::string> environment, const testing::TemporaryFolder& folder) {
  std::vector<std::string> argv{"/bin/bash", testing::source_file("examples/ranks/" + name)};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const std::string pipeexec = PIPEEXEC_COMMAND;
  environment.push_back("PATH=" + folder.path().string() + ":" +
                        pipeexec.substr(0, pipeexec.rfind('/')) + ":" + std::getenv("PATH"));
  return testing::run_command(argv, environment);
}

void write_program(const std::string& path, const std::string& text) {
  write_file(path, "#!/bin/bash\n" + text);
  ::chmod(path.c_str(), 0755);
}

void expect_ranks(const Outcome& outcome, int ranks) {
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["transport"], "tcp");
  ASSERT_EQ(std::ssize(json["ranks"]), ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(json["ranks"][static_cast<std::size_t>(rank)]["local_rank"], rank);
  }
}

TEST(RankExamples, ByHand) {
  const testing::TemporaryFolder folder;
  const testing::ReservedPort port;
  const std::string at = "MASTER_PORT=" + std::to_string(port.number());
  expect_ranks(example("by_hand.sh", {"--list-ranks", "--json"}, {at, "RANKS=3"}, folder), 3);
  const Outcome wrong = example("by_hand.sh", {"--schedule", "no-such"}, {at}, folder);
  EXPECT_EQ(wrong.status, 2);
}

TEST(RankExamples, ByTorchrun) {
  const testing::TemporaryFolder folder;
  // Takes the flags in the script's order.
  write_program(folder / "torchrun", R"(
[ "$1 $3 $5 $7 $9 ${11}" = "--nnodes --node-rank --nproc-per-node --master-addr --master-port --no-python" ] || exit 9
export WORLD_SIZE=$(($2 * $6)) MASTER_ADDR=$8 MASTER_PORT=${10}
ranks=$6
shift 11
for ((rank = ranks - 1; rank >= 0; rank--)); do
  RANK=$rank LOCAL_RANK=$rank "$@" &
done
wait
)");
  const testing::ReservedPort port;
  const std::string at = "MASTER_PORT=" + std::to_string(port.number());
  expect_ranks(example("by_torchrun.sh", {"--list-ranks", "--json"}, {at}, folder), 2);
}

TEST(RankExamples, ByAJobOfSlurm) {
  const testing::TemporaryFolder folder;
  const testing::ReservedPort port;
  write_program(folder / "scontrol", "printf 'localhost\\nnode2\\n'\n");
  // The script chooses a port by the job's number; a test takes one that it has.
  write_program(folder / "srun", R"(
[ "$1" = --kill-on-bad-exit=1 ] || exit 9
[ "$MASTER_PORT" = 20077 ] || exit 8
shift
export SLURM_NTASKS=3 SLURM_STEP_ID=0 MASTER_PORT=$TEST_PORT
for rank in 2 1 0; do
  SLURM_PROCID=$rank SLURM_LOCALID=$rank "$@" &
done
wait
)");
  expect_ranks(
      example("job.sbatch", {"--list-ranks", "--json"},
              {"SLURM_JOB_ID=77", "SLURM_PROCID=0", "SLURM_NTASKS=3",
               "SLURM_JOB_NODELIST=node[1-2]", "TEST_PORT=" + std::to_string(port.number())},
              folder),
      3);
}

}  // namespace
}  // namespace pipesim
