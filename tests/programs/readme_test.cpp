// What the READMEs show is what the commands print, and what they say to type
// works.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <sstream>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/words.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

// In the order in which they are read: a page uses files that those before it write.
constexpr std::array pages = {"README.md",      "sim/README.md", "sim/LESSONS.md",
                              "exec/README.md", "gui/README.md", "bench/README.md"};

// Runs a command line in the folder of the sources, where the pages' files are.
testing::Outcome run_in_sources(const std::string& line) {
  return testing::run_command({"/bin/sh", "-c", "cd '" PIPESIM_SOURCE_DIR "' && " + line},
                              {"COLUMNS=80", "PIPESIM=" PIPESIM_COMMAND});
}

struct Shown {
  std::string command;
  std::string output;
};

// The blocks of a page that a line like <!-- output: COMMAND --> stands before.
std::vector<Shown> shown_in(const std::string& page, const std::string& mark = "<!-- output: ") {
  const std::string text = read_file(testing::source_file(page));
  std::vector<Shown> all;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const std::size_t command = at + mark.size();
    const std::size_t block = text.find("```\n", command) + 4;
    all.push_back({text.substr(command, text.find(" -->", command) - command),
                   text.substr(block, text.find("```\n", block) - block)});
  }
  return all;
}

// Whether a block shows what was printed: all of it, where a line `...` stands for one
// or more lines left out.
bool shows(const std::string& block, const std::string& printed) {
  const std::vector<std::string> shown = testing::lines_of(block);
  const std::vector<std::string> all = testing::lines_of(printed);
  // fits[i]: the lines of the block so far show the first i that were printed.
  std::vector<bool> fits(all.size() + 1);
  fits[0] = true;
  for (const std::string& line : shown) {
    std::vector<bool> next(fits.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      next[i + 1] = line == "..." ? fits[i] || next[i] : fits[i] && line == all[i];
    }
    fits = next;
  }
  return fits.back() && printed.ends_with('\n');
}

TEST(Readme, LinesAreLeftOutWhereItSaysSo) {
  EXPECT_TRUE(shows("a\nb\n", "a\nb\n"));
  EXPECT_TRUE(shows("a\n...\nd\n", "a\nb\nc\nd\n"));
  EXPECT_TRUE(shows("...\nb\n...\n", "a\nb\nb\nc\n"));
  EXPECT_FALSE(shows("a\n", "a\nb\n"));
  EXPECT_FALSE(shows("a\n...\n", "a\n"));
  EXPECT_FALSE(shows("a\n...\nc\n", "a\nb\n"));
  EXPECT_FALSE(shows("...\nc\nb\n...\n", "a\nb\nc\nd\n"));
  EXPECT_FALSE(shows("a...\n", "ab\n"));
}

TEST(Readme, ShowsRealOutput) {
  int compared = 0;
  for (const char* page : pages) {
    for (const auto& [flags, output] : shown_in(page)) {
      const auto outcome = run_in_sources("'" PIPESIM_COMMAND "' " + flags);
      EXPECT_EQ(outcome.status, 0) << page << ": " << flags;
      EXPECT_EQ(outcome.err, "") << page << ": " << flags;
      EXPECT_TRUE(shows(output, outcome.out)) << page << ": " << flags << "\nshown:\n"
                                              << output << "printed:\n"
                                              << outcome.out;
      // Only lessons show mistakes.
      const bool is_lesson = page == std::string_view("sim/LESSONS.md");
      EXPECT_EQ(outcome.out.find("\nNotes\n") != std::string::npos, is_lesson)
          << page << ": " << flags << "\n"
          << outcome.out;
      ++compared;
    }
  }
  EXPECT_GE(compared, 6);
}

// Blocks that several commands of pipeexec, in a folder of their own, come to.
TEST(Readme, ShowsWhatCheckpointsHold) {
  int compared = 0;
  for (const auto& [command, output] : shown_in("exec/README.md", "<!-- in a folder: ")) {
    const testing::TemporaryFolder folder;
    const std::filesystem::path programs = std::filesystem::path(PIPEEXEC_COMMAND).parent_path();
    const auto outcome = testing::run_command({"/bin/sh", "-c",
                                               "cd '" + folder.path().string() + "' && PATH='" +
                                                   programs.string() + "':$PATH && " + command},
                                              {"COLUMNS=80"});
    EXPECT_EQ(outcome.status, 0) << command;
    EXPECT_EQ(outcome.err, "") << command;
    EXPECT_TRUE(shows(output, outcome.out)) << command << "\nprinted:\n" << outcome.out;
    ++compared;
  }
  EXPECT_GE(compared, 1);
}

// What a job script does after the step of Slurm has ended, with stand-ins for its commands.
TEST(Readme, SlurmsScriptRequeuesWhatMayGoOn) {
  const std::string text = read_file(testing::source_file("exec/README.md"));
  const std::size_t begin = text.find("#SBATCH --requeue");
  ASSERT_NE(begin, std::string::npos);
  const std::string script = text.substr(begin, text.find("```\n", begin) - begin);
  const auto ends = [&](const std::string& status, const std::string& restarts) {
    const auto outcome = testing::run_command(
        {"/bin/sh", "-c", "srun() { return " + status + "; }; scontrol() { echo $1; }; " + script},
        {"SLURM_JOB_ID=7", "SLURM_RESTART_COUNT=" + restarts});
    EXPECT_EQ(std::to_string(outcome.status), status) << outcome.err;
    return outcome.out;
  };
  for (const char* status : {"143", "138", "137", "1"}) {
    EXPECT_EQ(ends(status, ""), "requeue\n") << status;
    EXPECT_EQ(ends(status, "2"), "requeue\n") << status;
    EXPECT_EQ(ends(status, "3"), "") << status;
  }
  for (const char* status : {"0", "2"}) EXPECT_EQ(ends(status, "1"), "") << status;
}

TEST(Readme, ShowsHowProfilesAreSplit) {
  const std::vector<Shown> all = shown_in("examples/partition/README.md");
  ASSERT_EQ(all.size(), 1U);
  const auto outcome = run_in_sources(all[0].command);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, all[0].output);
}

// The command that a line types, or nothing. What mpirun would start as
// processes runs as threads, so that builds without MPI test it, too; trainings are
// short; a window is drawn instead of opened.
std::string command_of(std::string line) {
  const std::string launcher = "mpirun -n ";
  if (line.starts_with(launcher)) {
    const std::size_t end = line.find(' ', launcher.size());
    const std::string ranks = line.substr(launcher.size(), end - launcher.size());
    const bool has_stages = line.find("--input-pipeline") == std::string::npos;
    line = line.substr(end + 1) + (has_stages ? " --stages " : " --ranks ") + ranks;
  }
  if (line.starts_with("pipesim ")) return "'" PIPESIM_COMMAND "'" + line.substr(7);
  if (line.starts_with("pipeexec ")) {
    const bool trains = line.find("--schedule") != std::string::npos;
    const auto has = [&](const char* flag) { return line.find(flag) != std::string::npos; };
    std::string sizes;
    if (line.starts_with("pipeexec device ")) sizes = " --small --most-spread 1000000";
    if (trains && !has("--iterations")) sizes += " --iterations 2 --warmup 1";
    if (trains && !has("-batch ") && !has("--micro-batch") && !has("--device")) {
      sizes += " --micro-batch-size 1";
    }
    return "'" PIPEEXEC_COMMAND "'" + line.substr(8) + sizes;
  }
#ifdef PIPEVIEW_COMMAND
  if (line.starts_with("pipeview ")) {
    const bool opens_window = line.find("--screenshot") == std::string::npos &&
                              line.find("--report") == std::string::npos;
    return "QT_QPA_PLATFORM=offscreen '" PIPEVIEW_COMMAND "'" + line.substr(8) +
           (opens_window ? " --screenshot window.png" : "");
  }
#endif
  return {};
}

// Every command in a code block, continued lines joined, in a folder that holds
// the examples and what PyTorch recorded.
TEST(Readme, SaysWhatWorks) {
  const testing::TemporaryFolder folder;
  for (const char* used : {"examples", "traces/recorded"}) {
    std::filesystem::create_directories((folder.path() / used).parent_path());
    std::filesystem::copy(testing::source_file(used), folder.path() / used,
                          std::filesystem::copy_options::recursive);
  }
  int run = 0;
  for (const char* page : pages) {
    std::istringstream lines(read_file(testing::source_file(page)));
    bool in_block = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("```")) in_block = !in_block;
      if (!in_block) continue;
      for (std::string next; line.ends_with("\\") && std::getline(lines, next);) {
        line.pop_back();
        line += next;
      }
      const std::string command = command_of(line);
      if (command.empty()) continue;
      const auto outcome = testing::run_command(
          {"/bin/sh", "-c", "cd '" + folder.path().string() + "' && " + command});
      EXPECT_EQ(outcome.status, 0) << page << ": " << line << "\n" << outcome.err;
      EXPECT_EQ(outcome.err, "") << page << ": " << line;
      ++run;
    }
  }
  EXPECT_GE(run, 32);
}

}  // namespace
}  // namespace pipesim
