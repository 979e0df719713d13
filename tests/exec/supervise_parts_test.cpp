// What supervision is made of: commands and their alternatives, records of progress.
#include <gtest/gtest.h>

#include <sstream>

#include "exec/supervise/layouts.h"
#include "exec/supervise/progress_file.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim::exec {
namespace {

using pipesim::testing::TemporaryFolder;

std::vector<std::string> split_words(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// What an alternative makes of a command that has all it needs.
std::string alternative(const std::string& command, const std::string& flags) {
  const auto supervised = supervised_command(split_words(command), {flags});
  return command_text(supervised.layouts.at(1).words);
}

TEST(SupervisedCommand, GoesOnFromWhereItSaves) {
  const auto all = supervised_command(split_words("mpirun -n 4 a/pipeexec --checkpoint ck -x"), {});
  ASSERT_EQ(all.layouts.size(), 1U);
  EXPECT_EQ(command_text(all.layouts[0].words),
            "mpirun -n 4 a/pipeexec --checkpoint ck -x --resume ck");
  EXPECT_EQ(all.checkpoint, "ck");
  EXPECT_EQ(all.layouts[0].ranks, 4);
  const std::string whole = "pipeexec --checkpoint=ck --resume ck";
  const auto own = supervised_command(split_words(whole), {});
  EXPECT_EQ(command_text(own.layouts[0].words), whole);
  EXPECT_EQ(own.layouts[0].ranks, std::nullopt);
}

TEST(SupervisedCommand, AlternativesReplaceFlags) {
  const std::string end = "--checkpoint ck --resume ck";
  const std::string command = "mpirun --oversubscribe -n 4 nice pipeexec --data-parallel 2 " + end;
  EXPECT_EQ(alternative(command, "-n 2 --data-parallel 1"),
            "mpirun --oversubscribe -n 2 nice pipeexec --data-parallel 1 " + end);
  // As its launcher calls it.
  EXPECT_EQ(alternative("srun --ntasks=4 pipeexec " + end, "-n 2"), "srun -n 2 pipeexec " + end);
  EXPECT_EQ(alternative("srun --ntasks 4 pipeexec " + end, "--ntasks=2"),
            "srun --ntasks=2 pipeexec " + end);
  EXPECT_EQ(alternative("mpirun -np 4 pipeexec " + end, "--np  3 "),
            "mpirun --np 3 pipeexec " + end);
  // What neither has.
  EXPECT_EQ(
      alternative(command, "--zero 1 -host a,b"),
      "mpirun --oversubscribe -n 4 nice -host a,b pipeexec --data-parallel 2 " + end + " --zero 1");
  EXPECT_EQ(alternative("pipeexec --stages 4 " + end, "--stages 2"), "pipeexec --stages 2 " + end);
  // A switch that is there stays there, and a negative number is no flag.
  EXPECT_EQ(alternative("mpirun -n 4 pipeexec --verify --seed 3 " + end, "--verify --seed -1"),
            "mpirun -n 4 pipeexec --verify --seed -1 " + end);
  const auto both = supervised_command(split_words(command), {"-n 2", "--zero 1"});
  EXPECT_EQ(both.layouts[1].ranks, 2);
  EXPECT_EQ(both.layouts[2].ranks, 4);
  EXPECT_EQ(both.layouts[0].name(), "the command");
  EXPECT_EQ(both.layouts[1].name(), "'-n 2'");
}

TEST(SupervisedCommand, CanBeTyped) {
  EXPECT_EQ(command_text({"a", "b c", "", "it's", "x=1,2"}), "a 'b c' '' 'it'\\''s' x=1,2");
}

TEST(ProgressFile, IsReadAsItIsWritten) {
  const TemporaryFolder folder;
  const std::string path = folder / "progress";
  EXPECT_EQ(read_progress(path), std::nullopt);
  ProgressFile file(path);
  EXPECT_EQ(read_progress(path), std::nullopt);
  file.note(10, 11, 1000);
  EXPECT_EQ(read_progress(path), (RunProgress{10, 11, 1000, 1000, 0}));
  file.note(11, 12, 1100);
  EXPECT_EQ(read_progress(path), (RunProgress{10, 12, 1000, 1100, 100}));
  const std::size_t bytes = read_file(path).size();
  // Intervals 100, 5000, 200: the one in the middle.
  file.note(12, 13, 6100);
  file.note(13, 14, 6300);
  EXPECT_EQ(read_progress(path), (RunProgress{10, 14, 1000, 6300, 200}));
  // Ten at once.
  file.note(14, 24, 6300 + 2000);
  file.note(24, 34, 6300 + 4000);
  EXPECT_EQ(read_progress(path), (RunProgress{10, 34, 1000, 10300, 200}));
  constexpr std::int64_t late = INT64_MAX;
  ProgressFile last(path);
  last.note(late - 1, late, late);
  EXPECT_EQ(read_progress(path), (RunProgress{late - 1, late, late, late, 0}));
  EXPECT_EQ(read_file(path).size(), bytes);
}

// Of many iterations the last 101 count: 200 slow ones are forgotten.
TEST(ProgressFile, ForgetsOldIterations) {
  const TemporaryFolder folder;
  ProgressFile file(folder / "progress");
  std::int64_t now = 0;
  for (int i = 1; i <= 302; ++i) {
    now += i <= 201 ? 1000 : i % 2 == 0 ? 10 : 30;
    file.note(i - 1, i, now);
  }
  // 51 of 10, 50 of 30.
  EXPECT_EQ(read_progress(folder / "progress")->iteration_ns, 10);
}

TEST(ProgressFile, WhatIsNoRecordIsNone) {
  const TemporaryFolder folder;
  const std::string path = folder / "progress";
  for (const char* text :
       {"", "5", "pipeexec-progress 1 5 0 0 0 0", "pipeexec-progress 1 5 0 0 0 0 4",
        "pipeexec-progress 2 5 0 0 0 0 5", "pipeexec-progress 1 5 5 0 0 0 5",
        "pipeexec-progress 1 5 -1 0 0 0 5", "pipeexec-progress 1 x 0 0 0 0 x"}) {
    write_file(path, text);
    EXPECT_EQ(read_progress(path), std::nullopt) << text;
  }
  write_file(path, "pipeexec-progress 1 5 0 0 0 0 5");
  EXPECT_EQ(read_progress(path), (RunProgress{0, 5, 0, 0, 0}));
  EXPECT_TRUE(pipesim::testing::input_error_of([] {
                ProgressFile("/nowhere/progress");
              }).starts_with("PIPEEXEC_PROGRESS: cannot write"));
}

}  // namespace
}  // namespace pipesim::exec
