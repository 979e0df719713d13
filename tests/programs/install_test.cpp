// What `cmake --install` leaves: programs that run from there, their manual pages, and
// completions that offer what the programs take.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/help.h"
#include "tests/words.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::Outcome;
using testing::run_command;
using Words = std::vector<std::string>;
using Set = std::set<std::string>;

std::vector<std::string> installed_programs() {
#ifdef PIPEVIEW_COMMAND
  return {"pipeexec", "pipesim", "pipeview"};
#else
  return {"pipeexec", "pipesim"};
#endif
}

// One installation for all tests.
class Install : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<testing::TemporaryFolder>();
    const Outcome done =
        run_command({PIPESIM_CMAKE, "--install", PIPESIM_BUILD, "--prefix", *folder_ / "prefix"});
    ASSERT_EQ(done.status, 0) << done.err;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return *folder_ / ("prefix/" + name); }
  static std::string completion(const std::string& program) {
    return path("share/bash-completion/completions/" + program);
  }

  // What bash offers for the last of the words that are typed.
  static Set offered(const Words& typed) {
    Words command{"/bin/bash", "-c",
                  ". \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _$1 && "
                  "printf '%s\\n' \"${COMPREPLY[@]}\"",
                  completion(typed.front())};
    command.insert(command.end(), typed.begin(), typed.end());
    const Outcome replied = run_command(command);
    EXPECT_EQ(replied.status, 0) << replied.err;
    EXPECT_EQ(replied.err, "");
    const Words lines = testing::lines_of(replied.out);
    Set words(lines.begin(), lines.end());
    words.erase("");
    EXPECT_EQ(words.size() + (replied.out == "\n" ? 1 : 0), lines.size()) << "offered twice";
    return words;
  }

  // Each of the installed program's commands.
  static std::vector<testing::CommandHelp> commands_of(const std::string& program) {
    return testing::all_help_of({path("bin/" + program)});
  }

  static Set flags(const testing::CommandHelp& command) {
    Set names;
    for (const testing::HelpFlag& flag : command.flags) {
      names.insert(flag.names.begin(), flag.names.end());
    }
    return names;
  }

  static std::unique_ptr<testing::TemporaryFolder> folder_;
};
std::unique_ptr<testing::TemporaryFolder> Install::folder_;

TEST_F(Install, PutsEachFileInItsPlace) {
  Set expected{"share/doc/pipesim/LICENSE",
               "share/doc/pipesim/README.md",
               "share/doc/pipesim/exec/README.md",
               "share/doc/pipesim/gui/README.md",
               "share/doc/pipesim/traces/draw/fonts/LICENSE",
               "share/doc/pipesim/gui/pictures/both.png",
               "share/doc/pipesim/gui/pictures/difference.png",
               "share/doc/pipesim/gui/pictures/playground.png",
               "share/doc/pipesim/sim/LESSONS.md",
               "share/doc/pipesim/sim/README.md",
               "share/doc/pipesim/traces/FORMAT.md",
               "share/doc/pipesim/traces/METRICS.md"};
  for (const std::string& program : installed_programs()) {
    expected.insert({"bin/" + program, "share/man/man1/" + program + ".1.gz",
                     "share/bash-completion/completions/" + program,
                     "share/zsh/site-functions/_" + program});
    if (program == "pipeview") {
      expected.insert({"share/applications/pipeview.desktop",
                       "share/icons/hicolor/scalable/apps/pipeview.svg"});
    }
  }
  for (const char* module : {"libpipesim_cuda.so", "libpipesim_hip.so"}) {
    if (std::filesystem::exists(std::string(PIPESIM_BUILD "/") + module)) {
      expected.insert(std::string("lib/pipesim/") + module);
    }
  }
  Set found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path(""))) {
    if (!entry.is_directory()) {
      found.insert(std::filesystem::relative(entry.path(), path("")).string());
    }
  }
  EXPECT_EQ(found, expected);
}

TEST_F(Install, ProgramsRunFromThere) {
  const Words asked{"--schedule", "1f1b", "--stages", "4", "--microbatches", "8"};
  Words command{path("bin/pipesim")};
  command.insert(command.end(), asked.begin(), asked.end());
  const Outcome predicted = run_command(command);
  EXPECT_EQ(predicted.status, 0) << predicted.err;
  EXPECT_EQ(predicted.out, testing::pipesim(asked).out);
  for (const std::string& program : installed_programs()) {
    EXPECT_EQ(run_command({path("bin/" + program), "--version"}).status, 0) << program;
  }
}

// A module that is installed is found: what it says, it says itself.
TEST_F(Install, ModulesAreFound) {
  const Outcome here = run_command({PIPEEXEC_COMMAND, "--list-devices"});
  const Outcome there = run_command({path("bin/pipeexec"), "--list-devices"});
  EXPECT_EQ(there.status, 0) << there.err;
  EXPECT_EQ(there.out, here.out);
}

TEST_F(Install, ManualPagesHaveWhatHelpHas) {
  for (const std::string& program : installed_programs()) {
    const std::string set = "zcat " + path("share/man/man1/" + program + ".1.gz") +
                            " | groff -ww -man -Tascii -P-cbou -rLL=79n";
    const Outcome page = run_command({"/bin/sh", "-c", set});
    EXPECT_EQ(page.err, "") << program;
    std::vector<std::string> sections;
    for (const std::string& line : testing::lines_of(page.out)) {
      EXPECT_LE(line.size(), 80U) << line;
      if (line == line.substr(0, line.find_first_of("abcdefghijklmnopqrstuvwxyz(")) &&
          !line.empty() && line.front() != ' ') {
        sections.push_back(line);
      }
    }
    std::vector<std::string> expected{"NAME",        "SYNOPSIS", "DESCRIPTION",
                                      "OPTIONS",     "NOTES",    "SUBCOMMANDS",
                                      "EXIT STATUS", "EXAMPLES", "SEE ALSO"};
    if (program == "pipeview") std::erase(expected, "SUBCOMMANDS");
    if (program == "pipesim") {  // its commands have them
      std::erase(expected, "NOTES");
      std::erase(expected, "EXAMPLES");
    }
    EXPECT_EQ(sections, expected) << program;
    const Words of_page = testing::words(page.out);
    const Set all(of_page.begin(), of_page.end());
    for (const testing::CommandHelp& command : commands_of(program)) {
      for (const std::string& flag : flags(command)) {
        EXPECT_TRUE(all.contains(flag) || all.contains(flag + ",")) << program << ": " << flag;
      }
    }
  }
}

TEST_F(Install, BashOffersWhatHelpLists) {
  for (const std::string& program : installed_programs()) {
    for (const testing::CommandHelp& help : commands_of(program)) {
      Words typed = help.words;
      typed.front() = program;
      typed.emplace_back("");
      if (!help.commands.empty()) {
        EXPECT_EQ(offered(typed), Set(help.commands.begin(), help.commands.end()))
            << help.words.back();
      }
      typed.back() = "-";
      if (help.flags.empty()) {  // an overview: flags are those of a prediction
        EXPECT_TRUE(std::ranges::includes(offered(typed),
                                          Set({"--input-pipeline", "--schedule", "--version"})));
        continue;
      }
      EXPECT_EQ(offered(typed), flags(help)) << program << " ... " << help.words.back();
    }
  }
}

// What a program lists where it is given a name that it does not know.
Set known_to(const Words& command) {
  const Outcome refused = run_command(command);
  EXPECT_EQ(refused.status, 2) << refused.out;
  const std::string mark = "nearest first: ";
  const std::size_t at = refused.err.find(mark);
  EXPECT_NE(at, std::string::npos) << refused.err;
  std::string list = refused.err.substr(at + mark.size());
  list.erase(std::min(list.find(';'), list.size()));
  std::ranges::replace(list, ',', ' ');
  const Words names = testing::words(list);
  return {names.begin(), names.end()};
}

TEST_F(Install, BashOffersTheNamesThatProgramsKnow) {
  const Words shape{"1f1b", "--stages", "2", "--microbatches", "2"};
  const auto with = [](Words command, const Words& more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  const Words predict = with({"pipesim", "--schedule"}, shape);
  const Words by_model = with(predict, {"--model", "gpt2-small", "--cluster", "dgx-a100"});
  const Words batches{"pipesim",   "--model",  "dlrm-mini",
                      "--cluster", "dgx-a100", "--input-pipeline"};
  const Words train = with({"pipeexec", "--schedule"}, shape);
  const std::vector<Words> commands{
      {"pipesim", "--schedule"},
      {"pipesim", "schedule", "print"},
      {"pipesim", "clusters"},
      {"pipesim", "software"},
      {"pipesim", "devices"},
      with(predict, {"--p2p"}),
      with(by_model, {"--precision"}),
      with(by_model, {"--attention"}),
      with(by_model, {"--recompute"}),
      with(by_model, {"--software"}),
      with(by_model, {"--gather"}),
      with(predict, {"--model", "gpt2-small", "--cluster"}),
      with(with({"pipesim", "schedule", "check"}, shape), {"--transport"}),
      with(with({"pipesim", "schedule", "lower"}, shape), {"--receives"}),
      batches,
      with(batches, {"base", "--table-optimizer"}),
      {"pipesim", "plan", "--model", "gpt2-small", "--cluster", "dgx-a100", "--devices", "8",
       "--global-batch", "8", "--export"},
      with(train, {"--device"})};
  // In an empty folder: files may be given, too.
  const testing::TemporaryFolder empty;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(empty.path());
  for (Words command : commands) {
    const std::string flag = command.back();
    command.emplace_back("");
    const Set names = offered(command);
    command.back() = "no-such-name";
    command.front() = path("bin/" + command.front());
    Set known = known_to(command);
    if (flag == "--gather") known = {"window", "pass", "once"};  // by its help
    EXPECT_EQ(names, known) << flag;
  }
  // Of the many models a refusal names the nearest alone.
  const Set models = offered({"pipesim", "models", ""});
  for (const char* one : {"dlrm-mini", "deepseek-v3", "gpt2-small", "qwen3-8b"}) {
    EXPECT_TRUE(models.contains(one)) << one;
  }
  Words transport = with(train, {"--transport", ""});
  const Set offers = offered(transport);
  transport.back() = "no-such-name";
  transport.front() = path("bin/pipeexec");
  EXPECT_TRUE(std::ranges::includes(offers, known_to(transport)));
  std::filesystem::current_path(before);
}

TEST_F(Install, BashTakesWordsApart) {
  EXPECT_EQ(offered({"pipesim", "--zero", ""}), (Set{"0", "1", "2", "3"}));
  EXPECT_EQ(offered({"pipesim", "--p2p", "="}), offered({"pipesim", "--p2p", ""}));
  EXPECT_EQ(offered({"pipesim", "--p2p", "=", "f"}), Set{"fifo"});
  EXPECT_EQ(offered({"pipesim", "pla"}), Set{"plan"});
  EXPECT_EQ(offered({"pipesim", "schedule", "c"}), (Set{"check", "convert"}));
  EXPECT_EQ(offered({"pipesim", "--stages", ""}), Set{});
  // What a flag is given is no subcommand.
  EXPECT_EQ(offered({"pipesim", "--trace", "plan", "--sche"}), Set{"--schedule"});
  EXPECT_EQ(offered({"pipesim", "--trace", "=", "plan", "--sche"}), Set{"--schedule"});
  EXPECT_EQ(offered({"pipesim", "models", "--sche"}), Set{});
  EXPECT_EQ(offered({"pipesim", "report", "plan", "--fl"}), Set{"--flame"});
  const testing::TemporaryFolder folder;
  write_file(folder / "run.json", "");
  std::filesystem::create_directory(folder / "runs");
  const std::string start = folder / "ru";
  EXPECT_EQ(offered({"pipesim", "compare", start}), (Set{folder / "run.json", folder / "runs"}));
  EXPECT_EQ(offered({"pipesim", "--trace", start}), (Set{folder / "run.json", folder / "runs"}));
  EXPECT_EQ(offered({"pipeexec", "--resume", start}), Set{folder / "runs"});
}

// A folder that can't be written is an error as any other; no help tells of the flag.
TEST_F(Install, WritesManualsOnlyWhereItCan) {
  testing::expect_one_sentence(testing::pipesim({"--write-manual", "/dev/null/x"}), "pipesim",
                               "pipesim --write-manual /dev/null/x", 2, "/dev/null/x");
  EXPECT_EQ(testing::pipesim({"--help"}).out.find("--write-manual"), std::string::npos);
  const Outcome mistyped = testing::pipesim({"--write-manua", "x"});
  EXPECT_EQ(mistyped.status, 2);
  EXPECT_EQ(mistyped.err.find("--write-manual"), std::string::npos) << mistyped.err;
}

}  // namespace
}  // namespace pipesim
