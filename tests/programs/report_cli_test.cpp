// `pipesim report` of profiles without a pipeline, and what it writes for flame graphs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/profiles.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::Json;
using testing::Outcome;
using testing::pipesim;
using testing::TemporaryFolder;

const std::string plain = testing::source_file("tests/data/traces/hta_event_sync.json.gz");

void expect_narrow(const std::vector<std::string>& files) {
  for (const char* columns : {"40", "80", "200"}) {
    std::vector<std::string> arguments{"report"};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const Outcome outcome = pipesim(arguments, {std::string("COLUMNS=") + columns});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), std::stoul(columns)) << line;
    }
  }
}

// Two ranks with long names everywhere.
std::vector<std::string> two_profiles(const TemporaryFolder& folder, bool tell_ranks = true) {
  std::vector<std::string> paths;
  for (const int rank : {1, 0}) {
    testing::Profile profile(rank);
    if (!tell_ranks) profile.json().erase("distributedInfo");
    profile.event("cpu_op", std::string(300, 'x') + "\n;y", 100, 100, 0, 1000);
    profile.kernel(10, 100, 300, 100, "void at::native::" + std::string(200, 'k') + "<float>");
    profile.message(20, 300, 200);
    const std::string name = "a_profile_with_a_name_that_is_long_" + std::to_string(rank) + ".json";
    paths.push_back(testing::write(folder, name, profile.json()));
  }
  return paths;
}

TEST(ReportCommand, SaysWhatAPlainProfileDid) {
  const TemporaryFolder folder;
  const auto files = two_profiles(folder);
  const Outcome outcome = pipesim({"report", files[0], files[1]});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("10 slices on 6 tracks, 1.00 ms; no pipeline is known"))
      << outcome.out;
  // 100-400 and 300-500, of which 100 at once.
  for (const char* rank : {"rank 0", "rank 1"}) {
    EXPECT_NE(outcome.out.find(std::string(rank) + "  400.00  300.00 75.0     - 0.0  200.00 "
                                                   "100.00  100.00\n"),
              std::string::npos)
        << outcome.out;
  }
  EXPECT_LT(outcome.out.find("rank 0"), outcome.out.find("rank 1"));
  expect_narrow(files);
  expect_narrow({plain});
  expect_narrow(two_profiles(folder, false));
}

TEST(ReportCommand, WritesFlameGraphs) {
  const TemporaryFolder folder;
  const std::string run = folder / "run.json";
  ASSERT_EQ(pipesim({"--schedule", "1f1b", "--stages", "2", "--microbatches", "3", "--trace", run,
                     "--quiet"})
                .status,
            0);
  const Outcome printed = pipesim({"report", run});
  const Outcome folded = pipesim({"report", run, "--flame", folder / "run.folded"});
  EXPECT_EQ(folded.status, 0) << folded.err;
  EXPECT_EQ(folded.out, printed.out);
  EXPECT_EQ(read_file(folder / "run.folded"),
            "step 0;rank 0;idle;drain;waits for backward of stage 1 1000000\n"
            "step 0;rank 0;idle;warm-up;waits for backward of stage 1 2000000\n"
            "step 0;rank 0;stage 0;drain;B 4000000\n"
            "step 0;rank 0;stage 0;steady;B 2000000\n"
            "step 0;rank 0;stage 0;steady;F 1000000\n"
            "step 0;rank 0;stage 0;warm-up;F 2000000\n"
            "step 0;rank 1;idle;drain;end of the step 2000000\n"
            "step 0;rank 1;idle;warm-up;waits for F of stage 0 1000000\n"
            "step 0;rank 1;stage 1;drain;B 2000000\n"
            "step 0;rank 1;stage 1;steady;B 4000000\n"
            "step 0;rank 1;stage 1;steady;F 2000000\n"
            "step 0;rank 1;stage 1;warm-up;F 1000000\n");
  const auto files = two_profiles(folder);
  EXPECT_EQ(pipesim({"report", files[0], files[1], "--flame", folder / "a.speedscope.json"}).status,
            0);
  const Json speedscope = Json::parse(read_file(folder / "a.speedscope.json"));
  EXPECT_EQ(speedscope["profiles"].size(), 6U);
  EXPECT_EQ(pipesim({"report", plain, "--flame", folder / "b.folded.gz"}).status, 0);
}

TEST(ReportCommand, RefusesWhatIsWrong) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file(folder / name, text);
    return folder / name;
  };
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& part) {
    std::vector<std::string> all{"report"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    testing::expect_one_sentence(pipesim(all), "pipesim", arguments.back(), 2, part);
  };
  refused({plain, "--flame", folder / "a.svg"}, ".folded or .txt");
  refused({plain, "--flame", folder / "none/a.folded"}, "none/a.folded");
  const std::string run = write("run.json", R"({"traceEvents": []})");
  refused({run, "--flame", run}, "the trace and --flame name the same file");
  refused({run}, "0 events and nothing with a duration");
  EXPECT_EQ(read_file(run), R"({"traceEvents": []})");
  const std::string instant =
      write("instant.json", R"([{"ph": "i", "ts": 1, "pid": 1, "tid": 1, "name": "now"}])");
  EXPECT_EQ(pipesim({"report", instant}).status, 0);
  refused({instant, "--flame", folder / "a.folded"}, "no flame graph");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.folded"));
  refused({folder.path().string()}, folder.path().string());
  refused({write("text.json", "no trace")}, "text.json");
  // A profile that holds a pipeline, but not which.
  const std::string seed = read_file(testing::source_file("tests/fuzz/seeds/kineto/turns.json"));
  refused({write("turns.json", seed.substr(seed.find('{')))}, "give the schedule");
}

}  // namespace
}  // namespace pipesim
