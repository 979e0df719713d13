// Where output and memory are of no use: what pipesim says, and that nothing is left behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::call;
using testing::expect_refused;
using testing::Outcome;

Outcome shell(const std::string& script) {
  return testing::run_command({"/bin/sh", "-c", script}, {"PIPESIM=" PIPESIM_COMMAND});
}

TEST(Output, SaysWhyStandardOutputFailed) {
  for (const char* line : {"--schedule 1f1b --stages 100 --microbatches 8 --json", "--help",
                           "--version", "schedule lower 1f1b --stages 30 --microbatches 80",
                           "schedule print zb-h1 --stages 40 --microbatches 80"}) {
    const Outcome outcome = shell(std::string("\"$PIPESIM\" ") + line + " > /dev/full");
    EXPECT_EQ(outcome.status, 1) << line;
    EXPECT_EQ(outcome.err, "pipesim: cannot write to standard output: No space left on device\n");
  }
}

// The work is done, and files are written.
TEST(Output, IsLostWhereItsReaderHasGone) {
  const testing::TemporaryFolder folder;
  const std::string trace = folder / "t.json";
  EXPECT_EQ(
      testing::status_without_readers({PIPESIM_COMMAND, "--schedule", "1f1b", "--stages", "30",
                                       "--microbatches", "80", "--json", "--trace", trace}),
      0);
  EXPECT_TRUE(read_file(trace).ends_with("}\n"));
}

TEST(Input, IsRefusedWhereMemoryRunsOut) {
#ifndef PIPESIM_SANITIZED
  const testing::TemporaryFolder folder;
  const std::string trace = folder / "t.json";
  ASSERT_EQ(call("--schedule 1f1b --stages 64 --microbatches 1024 --trace " + trace).status, 0);
  const Outcome outcome = shell("ulimit -v 310000; \"$PIPESIM\" compare " + trace + " " + trace);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("memory runs out after "), std::string::npos) << outcome.err;
#endif
}

TEST(Output, EndsAsEverWhereAStandardDescriptorIsOfNoUse) {
  const testing::TemporaryFolder folder;
  const std::string trace = folder / "t.json";
  const std::string good =
      "\"$PIPESIM\" --schedule 1f1b --stages 2 --microbatches 2 --trace " + trace;
  for (const char* where : {" 2>&-", " 2>/dev/full", " <&- 2>&-"}) {
    const Outcome refused = shell("\"$PIPESIM\" --schedule nothing" + std::string(where));
    EXPECT_EQ(refused.status, 2) << where;
    EXPECT_EQ(refused.out + refused.err, "") << where;
    const Outcome done = shell(good + where);
    EXPECT_EQ(done.status, 0) << where;
    EXPECT_TRUE(read_file(trace).starts_with("{")) << where;
    std::filesystem::remove(trace);
  }
  const Outcome unprinted = shell(good + " >&-");
  EXPECT_EQ(unprinted.status, 1);
  EXPECT_EQ(unprinted.err, "pipesim: cannot write to standard output: Bad file descriptor\n");
}

TEST(Output, AFileSizeLimitIsAnErrorAndLeavesNothing) {
  const testing::TemporaryFolder folder;
  const Outcome outcome = shell(
      "ulimit -f 8; \"$PIPESIM\" --schedule 1f1b --stages 50 --microbatches 80 "
      "--trace " +
      (folder / "t.json"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("File too large"), std::string::npos) << outcome.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// The target of /dev/stdout is written to, not replaced.
TEST(Output, WritesThroughInheritedDescriptors) {
  const testing::TemporaryFolder folder;
  const std::string log = folder / "log.txt";
  const Outcome outcome = shell(
      "{ echo before; \"$PIPESIM\" schedule lower 1f1b --stages 2 --microbatches 1 -o /dev/stdout; "
      "echo after; } > " +
      log);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(read_file(log),
            "before\n0F0,0SEND_F0,0RECV_B0,0B0\r\n1RECV_F0,1F0,1B0,1SEND_B0\r\nafter\n");
}

TEST(Output, NeverReplacesAnotherOrAnInput) {
  const testing::TemporaryFolder folder;
  const std::string good = "--schedule 1f1b --stages 4 --microbatches 8";
  const std::string file = folder / "x.csv";
  expect_refused(good + " --trace " + file + " --export " + folder.path().string() + "/./x.csv", 2,
                 "--trace and --export name the same file");
  expect_refused(good + " --trace not_there_yet.json --export ./not_there_yet.json", 2,
                 "--trace and --export name the same file");
  EXPECT_EQ(call(good + " --quiet --export " + file).status, 0);
  expect_refused("--schedule " + file + " --trace " + file, 2,
                 "--schedule and --trace name the same file");
  std::filesystem::create_symlink(folder / "nowhere/y", folder / "link");
  expect_refused(good + " --trace " + (folder / "link"), 2, "is a dangling link");
}

// Refused with the estimate, before memory runs out.
// Pipes are read, but not for ever.
TEST(Input, IsRefusedWhereItDoesNotEnd) {
  const Outcome blanks = shell("head -c 300M /dev/zero | \"$PIPESIM\" report /dev/stdin");
  EXPECT_EQ(blanks.status, 2);
  EXPECT_NE(blanks.err.find("nothing but blanks for 256.0 MiB"), std::string::npos) << blanks.err;
  const testing::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "t.json").c_str(), 0600), 0);
  expect_refused("report " + folder.path().string(), 2, "is a folder without .json");
}

TEST(Input, RefusesWhatTheProcessMayNotTake) {
#ifndef PIPESIM_SANITIZED  // whose memory counts as its address space
  for (const char* line : {"--schedule zb-h1 --stages 8 --microbatches 400000 --json",
                           "--schedule gpipe --stages 8 --microbatches 400000",
                           "schedules --compare --stages 8 --microbatches 2000000",
                           "schedule check 1f1b --stages 8 --microbatches 100000",
                           "schedule print 1f1b --stages 8 --microbatches 100000",
                           "schedule lower 1f1b --stages 8 --microbatches 100000"}) {
    const Outcome outcome = shell(std::string("ulimit -v 150000; \"$PIPESIM\" ") + line);
    EXPECT_EQ(outcome.status, 2) << line;
    EXPECT_NE(outcome.err.find("GiB are available"), std::string::npos) << line << outcome.err;
  }
#endif
}

}  // namespace
}  // namespace pipesim
