// --layout-picture, as a user gives it to both programs.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/xml.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::Outcome;

Outcome run(const char* program, const std::string& line) {
  std::vector<std::string> argv{program};
  std::istringstream in(line);
  for (std::string word; in >> word;) argv.push_back(word);
  return testing::run_command(argv, {"COLUMNS=80"});
}

std::string printed(const char* program, const std::string& line) {
  const Outcome outcome = run(program, line);
  EXPECT_EQ(outcome.status, 0) << line << "\n" << outcome.err;
  EXPECT_EQ(outcome.err, "") << line;
  return outcome.out;
}

const std::string simulated =
    " --model gpt-mini --cluster dgx-a100 --precision fp32"
    " --micro-batch-size 2 --sequence-length 16";
const std::string trained = " --micro-batch-size 2 --sequence-length 16 --iterations 1 --warmup 0";

// Where the ends of the model are on two ranks: on one, pipeexec keeps two copies of a matrix.
TEST(LayoutPicture, IsTheSameFromBothPrograms) {
  const testing::TemporaryFolder folder;
  for (const std::string shape :
       {"--schedule 1f1b --stages 2 --microbatches 3 --layout 5,5",
        "--schedule interleaved --stages 2 --microbatches 4 --layout 3,2,2,3",
        "--schedule naive --placement 1,0,0,1,1,0 --virtual-stages 3 --stages 2 --microbatches 4 "
        "--layout 2,2,2,2,1,1"}) {
    const std::string one =
        printed(PIPESIM_COMMAND, shape + simulated + " --quiet --layout-picture");
    EXPECT_EQ(one, printed(PIPEEXEC_COMMAND, shape + trained + " --quiet --layout-picture"));
    EXPECT_NE(one.find("tied to rank"), std::string::npos) << one;
    EXPECT_NE(one.find("16.0 KiB"), std::string::npos) << one;
    const std::string a = folder / "a.svg";
    const std::string b = folder / "b.svg";
    printed(PIPESIM_COMMAND, shape + simulated + " --quiet --layout-picture " + a);
    printed(PIPEEXEC_COMMAND, shape + trained + " --quiet --layout-picture " + b);
    EXPECT_EQ(read_file(a), read_file(b));
    EXPECT_EQ(testing::read_xml(read_file(a)).fault, "");
  }
}

TEST(LayoutPicture, IsTheSameOfCosts) {
  const std::string shape =
      "--schedule 1f1b --stages 4 --microbatches 4 --layout 3,2,2,1 --costs " +
      testing::source_file("examples/uneven_costs.json") + " --quiet --layout-picture";
  const std::string one = printed(PIPESIM_COMMAND, shape);
  EXPECT_EQ(one, printed(PIPEEXEC_COMMAND, shape + " --device emulated --iterations 1 --warmup 0"));
  EXPECT_NE(one.find("layers 0-2"), std::string::npos) << one;
}

// Before the report, which stays what it is without the flag.
TEST(LayoutPicture, StandsBeforeTheReport) {
  const std::string line = "--schedule zb-h1 --stages 3 --microbatches 6";
  const std::string report = printed(PIPESIM_COMMAND, line);
  const std::string picture = printed(PIPESIM_COMMAND, line + " --quiet --layout-picture");
  const std::string both = printed(PIPESIM_COMMAND, line + " --layout-picture");
  ASSERT_TRUE(both.starts_with(picture + "\n")) << both;
  EXPECT_EQ(both.substr(picture.size() + 1), report);
  // With a dash, or in front of another flag, it means the same.
  EXPECT_EQ(printed(PIPESIM_COMMAND, "--layout-picture - --quiet " + line), picture);
  EXPECT_EQ(printed(PIPESIM_COMMAND, "--layout-picture " + line + " --quiet"), picture);
}

TEST(LayoutPicture, AFileIsWrittenBesideReportAndJson) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "layout.svg";
  const std::string line = "--schedule zb-h1 --stages 3 --microbatches 6 ";
  EXPECT_EQ(printed(PIPESIM_COMMAND, line + "--layout-picture " + path),
            printed(PIPESIM_COMMAND, line) + "Layout: " + path + "\n");
  const std::string first = read_file(path);
  EXPECT_EQ(printed(PIPESIM_COMMAND, line + "--json --layout-picture=" + path),
            printed(PIPESIM_COMMAND, line + "--json"));
  EXPECT_EQ(read_file(path), first);
  const std::string json =
      printed(PIPEEXEC_COMMAND, line + "--json --layout-picture " + path + trained);
  EXPECT_TRUE(json.starts_with("{")) << json;
  EXPECT_NE(read_file(path).find("gpt-mini"), std::string::npos);
}

TEST(LayoutPicture, PipeexecTrainsOn) {
  const std::string out = printed(
      PIPEEXEC_COMMAND, "--schedule 1f1b --stages 2 --microbatches 2 --layout-picture" + trained);
  const std::size_t picture = out.find("embedding, blocks 0-3");
  const std::size_t report = out.find("median iteration");
  EXPECT_LT(picture, report);
  EXPECT_NE(report, std::string::npos);
}

TEST(LayoutPicture, RefusesInOneSentence) {
  const testing::TemporaryFolder folder;
  const std::string line = "--schedule 1f1b --stages 2 --microbatches 2 ";
  for (const auto& [program, name] :
       {std::pair(PIPESIM_COMMAND, "pipesim"), {PIPEEXEC_COMMAND, "pipeexec"}}) {
    for (const auto& [flags, part] :
         {std::pair("--layout-picture " + (folder / "a.png"), std::string("ends in .svg")),
          {"--layout-picture " + (folder / "nowhere/a.svg"), "cannot write"},
          {"--layout-picture --json", "both print"},
          {"--layout-picture - --json", "both print"}}) {
      testing::expect_one_sentence(run(program, line + flags), name, flags, 2, part);
    }
  }
  const std::string same = folder / "a.svg";
  testing::expect_one_sentence(
      run(PIPESIM_COMMAND, line + "--trace " + same + " --layout-picture " + same), "pipesim", same,
      2, "name the same file");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A picture is not begun where another file can't be written.
TEST(LayoutPicture, NothingIsPrintedBeforeFilesAreOpen) {
  testing::expect_one_sentence(run(PIPESIM_COMMAND,
                                   "--schedule 1f1b --stages 2 --microbatches 2 --layout-picture "
                                   "--trace /nowhere/t.json"),
                               "pipesim", "--trace", 2, "cannot write");
}

}  // namespace
}  // namespace pipesim
