// How the ranks of an MPI job end: all with the same exit status.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/files.h"
#include "tests/mpi/mpirun.h"
#include "tests/words.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::Outcome;
using testing::TemporaryFolder;

// Runs pipeexec on 2 ranks, each in a shell that writes down its exit status; `special` is done
// before on rank 1. Expects `status` of both.
Outcome expect_status(const std::string& line, const std::string& special, int status) {
  const TemporaryFolder folder;
  const std::string script = fmt::format(
      "r=$OMPI_COMM_WORLD_RANK; if [ $r = 1 ]; then {}; fi; \"$0\" \"$@\"; "
      "echo $? > {}/$r",
      special, folder.path().string());
  std::vector<std::string> argv{"/bin/sh", "-c", script, PIPEEXEC_COMMAND};
  for (std::string& word : testing::words(line + " --checkpoint " + (folder / "ck"))) {
    argv.push_back(std::move(word));
  }
  const Outcome outcome = testing::mpirun(
      2, argv,
      {"PIPESIM_FAULT=term", "PIPESIM_FAULT_AT=3", "PIPESIM_FAULT_FOLDER=" + (folder / "ck")});
  for (const char* rank : {"0", "1"}) {
    EXPECT_EQ(read_file(folder / rank), fmt::format("{}\n", status)) << rank << outcome.err;
  }
  return outcome;
}

TEST(JobStatusMpi, AllRanksEndAlike) {
  const std::string training =
      "--microbatches 3 --micro-batch-size 1 --sequence-length 8 --iterations 500 --warmup 0 "
      "--checkpoint-every 1 --timeout 60s --quiet --schedule ";
  const std::string strikes = "export LD_PRELOAD=" PIPESIM_FAILING_DISK;
  expect_status(training + "1f1b", strikes, 128 + 15);
  expect_status(
      "--input-pipeline semi-sync --batches 500 --batch-size 8 --checkpoint-every 2 "
      "--timeout 60s --quiet",
      strikes, 128 + 15);
  const Outcome agreed = expect_status(training + "no-such", ":", 2);
  EXPECT_NE(agreed.err.find("pipeexec: unknown schedule"), std::string::npos) << agreed.err;
}

}  // namespace
}  // namespace pipesim
