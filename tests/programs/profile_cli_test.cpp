// Profiles of people's own jobs, as a user gives them to each command that reads traces.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/command.h"
#include "tests/megatron.h"

namespace pipesim {
namespace {

using namespace pipesim::testing;
using Words = std::vector<std::string>;

std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  for (std::size_t at = 0; (at = text.find("  ", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

// A Megatron job of 2 x 2 x 2 ranks, its schedule, and a prediction of it.
class JobCommand : public ::testing::TestWithParam<std::string> {
 protected:
  JobCommand() : order_(folder_ / "order.csv"), predicted_(folder_ / "predicted.json") {
    std::string rows;
    for (const std::string& row : of_.program()) rows += row + "\n";
    write_file(order_, rows);
    for (int rank = 0; rank < of_.job.ranks(); ++rank) {
      files_.push_back(write(folder_, "r" + std::to_string(rank) + ".json", of_.profile(rank)));
    }
    const Outcome outcome = pipesim({"--schedule", order_, "--forward", "1ms", "--backward", "2ms",
                                     "--p2p-latency", "50us", "--trace", predicted_, "--quiet"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  // The command of the test with the job's files; compare with a prediction in front.
  Outcome run(const Words& flags, const Words& files) {
    Words arguments{GetParam()};
    if (GetParam() == "compare") arguments.push_back(predicted_);
    arguments.insert(arguments.end(), files.begin(), files.end());
    if (GetParam() == "calibrate") arguments.insert(arguments.end(), {"-o", folder_ / "c.json"});
    if (GetParam() == "whatif") arguments.insert(arguments.end(), {"--scale", "B=0.9"});
    for (const std::string& flag : flags) {
      arguments.push_back(flag == "--schedule" ? order_flag() : flag);
    }
    return pipesim(arguments);
  }
  // Of whatif, --schedule is what would run instead.
  std::string order_flag() const { return GetParam() == "whatif" ? "--order" : "--schedule"; }
  Outcome run(const Words& flags) { return run(flags, files_); }
  // Files that tell nothing but each one's rank.
  void take_groups_out() {
    for (int rank = 0; rank < of_.job.ranks(); ++rank) {
      Json trace = of_.profile(rank);
      remove_groups(trace);
      remove_peers(trace);
      write(folder_, "r" + std::to_string(rank) + ".json", trace);
    }
  }
  void expect_refused(const Words& flags, const std::string& part) {
    std::string line = "pipesim " + GetParam();
    for (const std::string& flag : flags) line += " " + flag;
    expect_one_sentence(run(flags), "pipesim", line, 2, part);
  }

  TemporaryFolder folder_;
  std::string order_, predicted_;
  MegatronRun of_;
  Words files_;
};

TEST_P(JobCommand, ChoosesAPipelineAndSaysSo) {
  const Outcome first = run({"--schedule", order_});
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_NE(on_one_line(first.out).find("pipeline 1 of 4: ranks 0, 4; others by --replica 2"),
            std::string::npos)
      << first.out;
  const Outcome second = run({"--schedule", order_, "--replica", "2"});
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_NE(on_one_line(second.out).find("pipeline 2 of 4: ranks 1, 5"), std::string::npos);
  const Outcome named = run({"--schedule", order_, "--ranks", "3, 7"});
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_NE(on_one_line(named.out).find("ranks 3, 7 of the job's 8 are the pipeline"),
            std::string::npos);
}

// What an error says to do can be done with the same command.
TEST_P(JobCommand, NamesRemediesThatWork) {
  if (GetParam() != "compare") {  // it has the prediction's schedule
    expect_refused({}, "give the schedule that ran by " + order_flag());
  }
  take_groups_out();
  expect_refused({"--schedule", order_}, "name those of one pipeline by --ranks");
  expect_refused({"--schedule", order_, "--replica", "2"}, "name its ranks by --ranks");
  const Outcome named = run({"--schedule", order_, "--ranks", "0,4"});
  EXPECT_EQ(named.status, 0) << named.err;
}

TEST_P(JobCommand, RefusesWhatDoesNotFit) {
  expect_refused({"--schedule", order_, "--replica", "9"}, "9 is none: 1 of the ranks 0, 4");
  expect_refused({"--schedule", order_, "--replica", "0"}, "--replica");
  expect_refused({"--schedule", order_, "--replica", "two"}, "--replica");
  expect_refused({"--schedule", order_, "--ranks", "0,8"}, "no file is from rank 8");
  expect_refused({"--schedule", order_, "--ranks", "0,0"}, "0 is given twice");
  expect_refused({"--schedule", order_, "--ranks", "0,a"}, "'a' is not a rank");
  expect_refused({"--schedule", order_, "--ranks", "0,-4"}, "'-4' is not a rank");
  expect_refused({"--schedule", order_, "--ranks", ""}, "'' is not a rank");
  expect_refused({"--schedule", order_, "--ranks", "4"},
                 "the schedule has 2 ranks, and 1 is named");
  expect_refused({"--schedule", order_, "--ranks", "0,4", "--replica", "1"},
                 "--replica has no effect with --ranks");
  expect_refused({"--schedule", "1f1b"}, "pipesim schedule convert 1f1b");
  expect_refused({"--schedule", folder_ / "none.csv"}, "none.csv");
  // A flag that nothing needs.
  const Outcome ours = run({"--ranks", "0,4"}, {predicted_});
  if (GetParam() != "compare") {
    EXPECT_NE(ours.err.find("is not a profile; omit --ranks"), std::string::npos) << ours.err;
  }
  EXPECT_EQ(ours.status, 2);
  files_ = {files_[0], files_[4]};
  expect_refused({"--schedule", order_, "--replica", "1"}, "the files hold one pipeline");
}

INSTANTIATE_TEST_SUITE_P(Commands, JobCommand,
                         ::testing::Values("compare", "calibrate", "report", "whatif"),
                         [](const auto& command) { return command.param; });

TEST(JobReport, AdvisesCommandsThatKnowTheJob) {
  const TemporaryFolder folder;
  const MegatronRun of;
  Words arguments{"report"};
  for (int rank = 0; rank < of.job.ranks(); ++rank) {
    arguments.push_back(write(folder, "r" + std::to_string(rank) + ".json", of.profile(rank)));
  }
  std::string rows;
  for (const std::string& row : of.program()) rows += row + "\n";
  write_file(folder / "order.csv", rows);
  arguments.insert(arguments.end(), {"--schedule", folder / "order.csv", "--replica", "2"});
  const Outcome report = pipesim(arguments);
  const std::vector<std::string> advised = advised_commands(report.out);
  EXPECT_FALSE(advised.empty()) << report.out;
  for (const std::string& command : advised) {
    EXPECT_NE(command.find("--replica 2"), std::string::npos) << command;
    const Outcome outcome =
        run_command({"/bin/sh", "-c", std::string(PIPESIM_COMMAND) + " " + command});
    EXPECT_EQ(outcome.status, 0) << command << outcome.err;
  }
}

// Kernels of the job take what was predicted, so that the profile is the prediction.
TEST(JobComparison, IsThatOfTheChosenPipeline) {
  const TemporaryFolder folder;
  const MegatronRun of("interleaved", 8);
  Words arguments{"compare", folder / "predicted.json"};
  for (int rank = 0; rank < of.job.ranks(); ++rank) {
    arguments.push_back(write(folder, "r" + std::to_string(rank) + ".json", of.profile(rank)));
  }
  ASSERT_EQ(pipesim({"--schedule", "interleaved", "--stages", "2", "--virtual-stages", "2",
                     "--microbatches", "8", "--forward", "1ms", "--backward", "2ms",
                     "--p2p-latency", "50us", "--trace", arguments[1], "--quiet"})
                .status,
            0);
  arguments.push_back("--json");
  const Json first = Json::parse(pipesim(arguments).out);
  EXPECT_EQ(first["gap_ns"]["total"], 0);
  EXPECT_EQ(first["identified"], "inferred");
  EXPECT_EQ(first["matched"], 2 * 2 * 2 * 8);
  arguments.insert(arguments.end(), {"--replica", "3"});
  const Json third = Json::parse(pipesim(arguments).out);
  EXPECT_EQ(third["makespan_ns"]["measured"], 3 * third["makespan_ns"]["predicted"].get<int>());
}

// Each side may be a profile in many files: a folder.
TEST(JobComparison, OfTwoFolders) {
  const TemporaryFolder folder;
  const MegatronRun of;
  std::string rows;
  for (const std::string& row : of.program()) rows += row + "\n";
  write_file(folder / "order.csv", rows);
  for (const char* name : {"before", "after", "empty"}) {
    std::filesystem::create_directory(folder.path() / name);
  }
  for (int rank = 0; rank < of.job.ranks(); ++rank) {
    const std::string name = "r" + std::to_string(rank) + ".json";
    write(folder, "before/" + name, of.profile(rank));
    Json slower = of.profile(rank);
    for (Json& event : slower["traceEvents"]) {  // twice as slow, all of it
      event["ts"] = event["ts"].get<double>() * 2;
      event["dur"] = event["dur"].get<double>() * 2;
    }
    write(folder, "after/" + name, slower);
  }
  const auto compare = [&](const Words& more) {
    Words words{"compare", folder / "before", folder / "after", "--schedule", folder / "order.csv"};
    words.insert(words.end(), more.begin(), more.end());
    return pipesim(words);
  };
  const Outcome text = compare({});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("Second 30.40 ms, first 15.20 ms: ")) << text.out;
  EXPECT_EQ(text.out.find("measure"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("predict"), std::string::npos) << text.out;
  const Json json = Json::parse(compare({"--json", "--replica", "2"}).out);
  EXPECT_EQ(json["sources"], Json({{"predicted", "profiled"}, {"measured", "profiled"}}));
  EXPECT_EQ(json["makespan_ns"], Json({{"predicted", 30'400'000}, {"measured", 60'800'000}}));
  EXPECT_EQ(json["warnings"]["predicted"][0]["what"],
            "pipeline 2 of 4: ranks 1, 5; others by --replica 3");
  expect_one_sentence(pipesim({"report", folder / "empty"}), "pipesim", "report empty", 2,
                      "is a folder without .json");
  EXPECT_EQ(pipesim({"report", folder / "after", "--schedule", folder / "order.csv"}).status, 0);
}

}  // namespace
}  // namespace pipesim
