// What pipesim's help says: it fits a screen, its flags and examples are true.
#include "tests/help.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/model_calls.h"

namespace pipesim {
namespace {

using testing::call;
using testing::Outcome;

TEST(Help, NamesOnlyWhatIsThere) {
  for (const char* line :
       {"--help",           "predict --help",        "feed --help",
        "schedules --help", "schedule --help",       "schedule check --help",
        "calibrate --help", "compare --help",        "models --help",
        "clusters --help",  "devices --help",        "goodput --help",
        "plan --help",      "partition --help",      "whatif --help",
        "report --help",    "software --help",       "import --help",
        "fit --help",       "schedule lower --help", "schedule streams --help"}) {
    const Outcome outcome = call(line);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_FALSE(outcome.out.empty());
    std::istringstream lines(outcome.out);
    for (std::string text; std::getline(lines, text);) EXPECT_LE(text.size(), 80U) << text;
  }
  EXPECT_EQ(call("--version").out, "pipesim 0.1.0\n");
}

TEST(Help, FitsOneScreenAndIsWhatNoArgumentsSay) {
  const Outcome help = call("--help");
  EXPECT_LE(std::ranges::count(help.out, '\n'), 24);
  const Outcome nothing = call("");
  EXPECT_EQ(nothing.status, 2);
  EXPECT_EQ(nothing.out, "");
  EXPECT_EQ(nothing.err, help.out);
}

// Flags alone are those of the command that has them.
TEST(Help, FlagsAloneNameACommand) {
  const std::string shape = "--schedule 1f1b --stages 4 --microbatches 8";
  EXPECT_EQ(call(shape).out, call("predict " + shape).out);
  const std::string feed = "--model dlrm-mini --cluster dgx-a100 --ranks 2 --batches 4";
  EXPECT_EQ(call("--input-pipeline base " + feed).out,
            call("feed --input-pipeline base " + feed).out);
  EXPECT_EQ(call(feed).out, call("feed " + feed).out);
  EXPECT_EQ(call("--help --schedule").out, call("--help").out);
  EXPECT_EQ(call("--schedule 1f1b --help").out, call("predict --help").out);
}

// Every example of help runs, in a folder with the files that it names, but for those that need a
// trainer's profile or a measurement of one's own.
TEST(Help, ExamplesRun) {
  const testing::TemporaryFolder folder;
  const std::string go_there = "cd '" + (folder / "") + "' && PATH='" PIPESIM_BUILD "':$PATH && ";
  const auto run = [&](const std::string& line) {
    const Outcome outcome = testing::run_command({"/bin/sh", "-c", go_there + line});
    EXPECT_EQ(outcome.status, 0) << line << "\n" << outcome.err;
  };
  const std::string sources = PIPESIM_SOURCE_DIR "/examples";
  run("ln -s '" + sources +
      "' examples && cp examples/import/megatron_gpt3.sh pretrain_gpt.sh && "
      "cp examples/import/torchtitan_8b.toml llama3_8b.toml && "
      "cp examples/import/deepspeed.json ds_config.json");
  const std::string shape = " --stages 4 --microbatches 8 ";
  run("pipesim --schedule 1f1b" + shape +
      "--trace run.json --export order.csv >/dev/null && "
      "cp run.json predicted.json && gzip -k run.json && cp order.csv own.csv && "
      "cp order.csv my_order.csv && "
      "pipesim schedule streams 1f1b" +
      shape +
      "--p2p fifo -o my_program.csv && "
      "pipesim calibrate run.json -o costs.json >/dev/null");
  const std::set<std::string> lacking{"rank0.json.gz", "before/",    "runs.csv",     "mine.json",
                                      "mpirun",        "--measured", "measured.json"};
  int tried = 0;
  for (const testing::CommandHelp& command : testing::all_help_of({PIPESIM_COMMAND})) {
    for (const std::string& example : command.examples) {
      const bool lacks = std::ranges::any_of(lacking, [&](const std::string& what) {
        return example.find(what) != std::string::npos;
      });
      if (lacks) continue;
      ++tried;
      run(example + " >/dev/null");
    }
  }
  EXPECT_GE(tried, 25);
}

}  // namespace
}  // namespace pipesim
