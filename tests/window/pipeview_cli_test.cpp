// pipeview without a screen, as a user drives it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <QImage>
#include <filesystem>

#include "tests/command.h"
#include "tests/megatron.h"
#include "tests/windows.h"

namespace pipesim::gui {
namespace {

using testing::TraceFiles;

// Without a display, and without what the test itself was told.
const std::vector<std::string> no_display{
    "DISPLAY=", "WAYLAND_DISPLAY=", "QT_QPA_PLATFORM=", "QT_LOGGING_RULES="};

pipesim::testing::Outcome pipeview(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), PIPEVIEW_COMMAND);
  return pipesim::testing::run_command(arguments, no_display);
}

// One sentence on standard error, and that status.
void expect_refused(const std::vector<std::string>& arguments, int status,
                    const std::string& part) {
  std::string line = "pipeview";
  for (const std::string& argument : arguments) line += " " + argument;
  pipesim::testing::expect_one_sentence(pipeview(arguments), "pipeview", line, status, part);
}

QImage image_of(const std::string& path) { return QImage(QString::fromStdString(path)); }

TEST(PipeviewCommand, ReportIsWhatCompareSays) {
  const TraceFiles files;
  const auto report = pipeview({files.plan(), files.run(), "--report"});
  const auto compared = pipesim::testing::pipesim({"compare", files.plan(), files.run()});
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_EQ(report.err, "");
  EXPECT_NE(compared.out, "");
  EXPECT_EQ(report.out, compared.out);
}

TEST(PipeviewCommand, ReportOfOneRunHasItsPictureAndRanks) {
  const TraceFiles files;
  const auto report = pipeview({files.plan(), "--report"});
  EXPECT_EQ(report.status, 0) << report.err;
  // 4 stages, 8 microbatches, F 1 ms, B 2 ms, 50 us a hop: (m + p - 1)(F + B) and
  // hops, which meet on the way back as on the way out.
  EXPECT_NE(report.out.find("0  F0"), std::string::npos) << report.out;
  EXPECT_NE(report.out.find("33.80"), std::string::npos) << report.out;
  EXPECT_NE(report.out.find("bubble"), std::string::npos) << report.out;
}

TEST(PipeviewCommand, ReportOfEventsIsPipesims) {
  const std::vector<std::string> traces{
      pipesim::testing::source_file("tests/data/traces/hta_backward_thread.json"),
      pipesim::testing::source_file("tests/data/traces/hta_event_sync.json.gz")};
  const auto report = pipeview({traces[0], traces[1], "--report"});
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_NE(report.out.find("name"), std::string::npos) << report.out;
  EXPECT_EQ(report.out, pipesim::testing::pipesim({"report", traces[0], traces[1]}).out);
}

TEST(PipeviewCommand, ScreenshotsHaveTheSizeAskedFor) {
  const TraceFiles files;
  const std::string path = files / "a.png";
  for (const auto& [flags, size] : std::vector<std::pair<std::vector<std::string>, QSize>>{
           {{"--size", "1024x700"}, {1024, 700}},
           {{}, {1600, 900}},
           {{"--size", "800x600", "--scale", "2"}, {1600, 1200}}}) {
    std::vector<std::string> arguments{files.plan(), files.run(), "--screenshot", path};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const auto outcome = pipeview(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out + outcome.err, "");
    EXPECT_EQ(image_of(path).size(), size);
  }
}

TEST(PipeviewCommand, TheSameCommandMakesTheSamePicture) {
  const TraceFiles files;
  const auto bytes = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {files.plan(), files.run(), "--screenshot", files / "a.png",
                                 "--size", "1024x700"});
    const auto outcome = pipeview(flags);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return read_file(files / "a.png");
  };
  const std::string plain = bytes({});
  EXPECT_EQ(plain, bytes({}));
  std::set<std::string> pictures{plain};
  const std::vector<std::vector<std::string>> flags{
      {"--theme", "dark"},      {"--align", "slot"},     {"--show", "overlay"},
      {"--show", "difference"}, {"--colour", "error"},   {"--colour", "microbatch"},
      {"--select", "2B3"},      {"--range", "1ms..5ms"}, {"--transfers"},
      {"--critical"},           {"--memory-cap", "3GiB"}};
  for (const auto& each : flags) {
    EXPECT_TRUE(pictures.insert(bytes(each)).second) << each.front() << " changes nothing";
  }
}

// Without traces it is the playground, which begins with what flags say.
TEST(PipeviewCommand, PlaysWithoutTraces) {
  const TraceFiles files;
  std::set<std::string> pictures;
  const std::vector<std::vector<std::string>> flags{
      {"--schedule", "interleaved"}, {"--stages", "6"},
      {"--microbatches", "5"},       {"--forward", "3ms"},
      {"--backward", "1.5ms"},       {"--p2p-latency", "300us"},
      {"--memory-cap", "1GiB"},      {"--schedule", "interleaved", "--virtual-stages", "3"}};
  const auto picture = [&](std::vector<std::string> each) {
    each.insert(each.begin(), {"--screenshot", files / "a.png", "--size", "1024x700"});
    const auto outcome = pipeview(each);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return read_file(files / "a.png");
  };
  pictures.insert(picture({}));
  EXPECT_EQ(picture({"--playground"}), *pictures.begin());
  for (const auto& each : flags) {
    EXPECT_TRUE(pictures.insert(picture(each)).second) << each.front() << " changes nothing";
  }
}

TEST(PipeviewCommand, WrongFlagsAreRefused) {
  const TraceFiles files;
  const std::string plan = files.plan();
  const std::string png = files / "a.png";
  expect_refused({plan, "--screenshot", files / "a.jpg"}, 2, "PNG");
  expect_refused({plan, "--screenshot", png, "--size", "large"}, 2, "1600x900");
  expect_refused({plan, "--screenshot", png, "--size", "10x10"}, 2, "480");
  expect_refused({plan, "--screenshot", png, "--size", "100000x700"}, 2, "8192");
  expect_refused({plan, "--screenshot", png, "--size", "800x-1"}, 2, "--size");
  expect_refused({plan, "--screenshot", png, "--scale", "9"}, 2, "--scale");
  expect_refused({plan, "--screenshot", png, "--theme", "blue"}, 2, "light");
  expect_refused({plan, "--screenshot", png, "--align", "slots"}, 2, "slot");
  expect_refused({plan, "--screenshot", png, "--show", "both"}, 2, "overlay");
  expect_refused({plan, "--screenshot", png, "--colour", "red"}, 2, "microbatch");
  expect_refused({plan, "--screenshot", png, "--range", "5ms"}, 2, "1ms..5ms");
  expect_refused({plan, "--screenshot", png, "--range", "5ms..1ms"}, 2, "--range");
  expect_refused({plan, "--screenshot", png, "--memory-cap", "lots"}, 2, "--memory-cap");
  expect_refused({plan, "--screenshot", png, "--select", "9F9"}, 2, "--select");
  expect_refused({plan, "--screenshot", png, "--size", "1600x"}, 2, "1600x900");
  expect_refused({plan, "--screenshot", png, "--size", "8192x8192", "--scale", "3"}, 2, "pixels");
  expect_refused({plan, "--screenshot", png, "--range", "10s..20s"}, 2, "--range");
  expect_refused({plan, "--screenshot", png, "--playground"}, 2, "--playground");
  expect_refused({plan, "--screenshot", png, "--stages", "4"}, 2, "--stages");
  expect_refused({plan, "--report", "--forward", "1ms"}, 2, "--forward");
  expect_refused({plan, "--screenshot", png, "--p2p-latency", "1ms"}, 2, "--p2p-latency");
  expect_refused({"--screenshot", png, "--p2p-latency", "fast"}, 2, "--p2p-latency");
  expect_refused({"--screenshot", png, "--stages", "0"}, 2, "--stages");
  expect_refused({"--screenshot", png, "--microbatches", "100000000"}, 2, "at most 4096");
  expect_refused({"--screenshot", png, "--stages", "5000"}, 2, "at most 64");
  expect_refused({"--screenshot", png, "--schedule", "1f1"}, 2, "nearest first: 1f1b");
  expect_refused({"--screenshot", png, "--schedule", "dualpipe", "--stages", "3"}, 2, "even");
  expect_refused({"--screenshot", png, "--backward", "2"}, 2, "--backward");
  expect_refused({"--screenshot", png, "--select", "0F0"}, 2, "--select");
  expect_refused({plan, "--report", "--size", "800x600"}, 2, "--size");
  expect_refused({plan, files.run(), plan, "--report"}, 2, "3 traces");
  expect_refused({plan, "--screenshoot", png}, 2, "--screenshot");
  expect_refused({plan}, 2, "display");
  expect_refused({"--report"}, 2, "trace");
  EXPECT_FALSE(std::filesystem::exists(png));
}

// A profile that names forward_step and backward_step alone, of a job with replicas.
TEST(PipeviewCommand, TakesWhatIsSaidOfProfiles) {
  const pipesim::testing::TemporaryFolder folder;
  const pipesim::testing::MegatronRun of;
  std::string rows;
  for (const std::string& row : of.program()) rows += row + "\n";
  const std::string order = folder / "order.csv";
  pipesim::write_file(order, rows);
  std::vector<std::string> files;
  for (int rank = 0; rank < of.job.ranks(); ++rank) {
    files.push_back(
        pipesim::testing::write(folder, fmt::format("r{}.json", rank), of.profile(rank)));
  }
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), files.begin(), files.end());
    return flags;
  };
  const auto first = pipeview(with({"--report", "--schedule", order}));
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_TRUE(first.out.starts_with("2 ranks, 4 microbatches: 15.20 ms")) << first.out;
  EXPECT_NE(first.out.find("pipeline 1 of 4: ranks 0, 4; others by --replica 2"),
            std::string::npos);
  const auto second = pipeview(with({"--report", "--schedule", order, "--replica", "2"}));
  EXPECT_TRUE(second.out.starts_with("2 ranks, 4 microbatches: 30.40 ms")) << second.out;
  const auto third = pipeview(with({"--report", "--schedule", order, "--ranks", "2,6"}));
  EXPECT_TRUE(third.out.starts_with("2 ranks, 4 microbatches: 45.60 ms")) << third.out;
  // A folder's files are a run of their own.
  for (const char* name : {"before", "after"}) {
    std::filesystem::create_directory(folder.path() / name);
    for (const std::string& file : files) {
      std::filesystem::copy(file, folder.path() / name);
    }
  }
  const auto folders =
      pipeview({folder / "before", folder / "after", "--report", "--schedule", order});
  EXPECT_EQ(folders.status, 0) << folders.err;
  EXPECT_TRUE(folders.out.starts_with("Both are alike: second 15.20 ms, first 15.20 ms."))
      << folders.out;
  const std::string png = folder / "a.png";
  EXPECT_EQ(pipeview(with({"--schedule", order, "--screenshot", png})).status, 0);
  EXPECT_FALSE(image_of(png).isNull());
  std::filesystem::remove(png);

  for (const std::vector<std::string>& shown :
       {std::vector<std::string>{"--report"}, {"--screenshot", png}}) {
    const auto refused = [&](std::vector<std::string> flags, const std::string& part) {
      flags.insert(flags.begin(), shown.begin(), shown.end());
      expect_refused(with(flags), 2, part);
    };
    refused({"--schedule", order, "--replica", "9"}, "9 is none: 1 of the ranks 0, 4");
    refused({"--schedule", order, "--ranks", "0,9"}, "no file is from rank 9");
    refused({"--schedule", order, "--ranks", "0,0"}, "0 is given twice");
    refused({"--schedule", order, "--ranks", "0"}, "the schedule has 2 ranks, and 1 is named");
    refused({"--schedule", order, "--ranks", "x"}, "'x' is not a rank");
    refused({"--schedule", folder / "none.csv"}, "none.csv");
    refused({"--replica", "2"}, "give the schedule that ran by --schedule");
  }
  expect_refused(with({"--report"}), 2, "give the schedule that ran by --schedule");
  const TraceFiles ours;
  expect_refused({ours.plan(), "--report", "--ranks", "0,1"}, 2, "omit --ranks");
  expect_refused({ours.plan(), "--report", "--schedule", order}, 2, "omit --schedule");
  expect_refused({"--screenshot", png, "--schedule", order}, 2, "plays schedules by name");
  EXPECT_FALSE(std::filesystem::exists(png));
}

TEST(PipeviewCommand, FilesThatCannotBeOpenedOrWrittenAreRefused) {
  const TraceFiles files;
  const std::string missing = files / "missing.json";
  expect_refused({missing, "--screenshot", files / "a.png"}, 2, missing);
  expect_refused({missing, "--report"}, 2, missing);
  expect_refused({files.plan(), missing, "--report"}, 2, missing);
  expect_refused({files.plan(), missing, "--screenshot", files / "a.png"}, 2, missing);
  expect_refused({files.plan(), "--screenshot", "/no/such/folder/a.png"}, 2, "/no/such/folder");
  EXPECT_FALSE(std::filesystem::exists(files / "a.png"));
}

TEST(PipeviewCommand, SaysThatAScreenCannotBeReached) {
  const TraceFiles files;
  const auto outcome = pipesim::testing::run_command(
      {PIPEVIEW_COMMAND, files.plan()},
      {"DISPLAY=:9999", "WAYLAND_DISPLAY=", "QT_QPA_PLATFORM=", "QT_LOGGING_RULES="});
  pipesim::testing::expect_one_sentence(outcome, "pipeview", "DISPLAY=:9999 pipeview", 2,
                                        "DISPLAY");
}

TEST(PipeviewCommand, SaysWhatItIs) {
  const auto version = pipeview({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.out.substr(0, 9), "pipeview ");
  EXPECT_EQ(std::count(version.out.begin(), version.out.end(), '\n'), 1);
  const auto help = pipeview({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* flag : {"--screenshot", "--size", "--report", "--theme", "--select"}) {
    EXPECT_NE(help.out.find(flag), std::string::npos) << flag;
  }
}

}  // namespace
}  // namespace pipesim::gui
