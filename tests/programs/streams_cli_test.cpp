// `pipesim schedule streams` and the programs that it writes, as a user drives them.
#include <gtest/gtest.h>

#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using namespace testing;

const std::string streams = "schedule streams 1f1b --stages 3 --microbatches 4";

TEST(StreamsCli, WritesWhatPredictsAlike) {
  const TemporaryFolder folder;
  for (const std::string mode : {"async", "fifo", "edge-fifo"}) {
    const std::string file = folder / (mode + ".program");
    const Outcome written = call(streams + " --p2p " + mode + " -o " + file);
    EXPECT_EQ(written.status, 0) << written.err;
    const std::string latency = " --p2p-latency 300us";
    const Json again = json_of("--schedule " + file + latency);
    EXPECT_EQ(again["p2p"], mode);
    const Json first =
        json_of("--schedule 1f1b --stages 3 --microbatches 4 --p2p " + mode + latency);
    EXPECT_EQ(again["makespan_ns"], first["makespan_ns"]);
    EXPECT_EQ(again["ranks"], first["ranks"]);
    EXPECT_EQ(call("schedule streams " + file).out, read_file(file));
    EXPECT_EQ(call("schedule check " + file).status, 0);
  }
}

// The whole of it trains, too, and has the bits of one rank.
TEST(StreamsCli, WritesWhatTrains) {
  const TemporaryFolder folder;
  const std::string file = folder / "whole.program";
  EXPECT_EQ(call(streams + " --whole --p2p fifo -o " + file).status, 0);
  for (const char* action : {"2REDUCE_GRAD", "2REDUCE_TIED", "1GRAD_NORM", "1OPTIMIZER"}) {
    EXPECT_NE(read_file(file).find(action), std::string::npos) << action;
  }
  const Outcome run = run_command({PIPEEXEC_COMMAND, "--schedule", file, "--transport", "local",
                                   "--verify", "--iterations", "1", "--warmup", "0",
                                   "--micro-batch-size", "1", "--sequence-length", "8", "--json"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(Json::parse(run.out)["verify"]["bitwise"], true);
}

// A line more, and the prediction says what it costs.
TEST(StreamsCli, SaysWhatALineChanges) {
  const TemporaryFolder folder;
  const std::string file = folder / "fifo.program";
  EXPECT_EQ(call(streams + " --p2p fifo -o " + file).status, 0);
  const Json before = json_of("--schedule " + file + " --iterations 2");
  write_file(file, read_file(file) + "\n0F1 after 2B0  # one microbatch at a time\n");
  const Json behind = json_of("--schedule " + file + " --iterations 2");
  EXPECT_EQ(before["makespan_ns"], 18'000'000);
  EXPECT_EQ(behind["makespan_ns"], 20'000'000);
  EXPECT_EQ(call("schedule check " + file).out.substr(file.size()),
            ": 3 stages, 4 microbatches, 56 actions\nfifo        runs\n");
  EXPECT_EQ(call("schedule streams " + file + " -o " + file).status, 0);
  EXPECT_EQ(json_of("--schedule " + file + " --iterations 2"), behind);

  EXPECT_TRUE(call("schedule print " + file).out.ends_with("\n0F1 after 2B0\n"));
  // A trace says so, too.
  const std::string trace = folder / "trace.json";
  EXPECT_EQ(call("--schedule " + file + " --quiet --trace " + trace).status, 0);
  EXPECT_EQ(Json::parse(read_file(trace))["metadata"]["pipesim"]["dependencies"],
            Json::array({"0F1 after 2B0"}));
  EXPECT_EQ(json_of("compare " + trace + " " + trace)["gap_ns"]["total"], 0);

  const auto refused = [&](const std::string& line, const std::string& part) {
    expect_one_sentence(call(line), "pipesim", line, 2, part);
  };
  refused("schedule convert " + file, "CSV cannot say that 0F1 waits for 2B0");
  refused("--schedule " + file + " --export " + (folder / "out.csv"), "CSV cannot say that");
  const Outcome run = run_command({PIPEEXEC_COMMAND, "--schedule", file, "--transport", "local"});
  expect_one_sentence(run, "pipeexec", file, 2,
                      "0F1 on rank 0 is to wait for 2B0 on rank 2, of which no message tells it");
  write_file(file, read_file(file) + "0F0 after 0B0\n");
  const Outcome stuck = call("schedule check " + file);
  EXPECT_EQ(stuck.status, 1);
  EXPECT_NE(testing::unwrapped(stuck.out).find(
                "0F0 on rank 0 waits for 0B0, which comes after 0F0 on rank 0"),
            std::string::npos)
      << stuck.out;
}

TEST(StreamsCli, RunsWhatWaitsOnOneRank) {
  const TemporaryFolder folder;
  const std::string file = folder / "late.program", trace = folder / "trace.json";
  EXPECT_EQ(call(streams + " --p2p fifo -o " + file).status, 0);
  write_file(file, read_file(file) + "0F2 after 0SEND_F0 0SEND_F1\n0SEND_F1 after 0F1\n");
  const Outcome run = run_command({PIPEEXEC_COMMAND, "--schedule", file, "--transport", "local",
                                   "--verify", "--trace", trace, "--quiet"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(Json::parse(read_file(trace))["metadata"]["pipesim"]["dependencies"],
            Json::array({"0F2 after 0SEND_F0", "0F2 after 0SEND_F1", "0SEND_F1 after 0F1"}));
}

TEST(StreamsCli, RefusesInOneSentence) {
  const TemporaryFolder folder;
  const std::string file = folder / "fifo.program";
  EXPECT_EQ(call(streams + " --p2p fifo -o " + file).status, 0);
  const auto refused = [&](const std::string& line, const std::string& part) {
    expect_one_sentence(call(line), "pipesim", line, 2, part);
  };
  refused("--schedule " + file + " --p2p blocking", "puts its transfers on streams of fifo");
  refused("--schedule " + file + " --stages 4", "--stages 4: ");
  refused(streams + " --p2p tcp", "unknown p2p mode 'tcp'");
  refused("schedule streams", "schedule");
  refused("schedule check " + file + " --transport edge-fifo", "on streams of fifo");
  refused("--schedule " + (folder / "none.program"), "No such file");
  write_file(folder / "empty.program", "pipesim-program 1\n");
  refused("--schedule " + (folder / "empty.program"), "holds no rank");
  std::string text = read_file(file);
  write_file(file, text.replace(text.find("0SEND_F0"), 8, "0SEND_G0"));
  refused("--schedule " + file, "fifo.program:5:11: ");
}

}  // namespace
}  // namespace pipesim
