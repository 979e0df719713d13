// --jitter, --seeds and --slow-rank, as a user gives them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::call;
using testing::Json;
using testing::json_of;
using testing::Outcome;
using testing::schedule;

TEST(SpreadFlags, SayWhatTheMakespanVariesBy) {
  const Json plain = json_of(schedule);
  EXPECT_FALSE(plain.contains("makespan_spread_ns"));
  const Json varied = json_of(schedule + " --jitter 5%");
  EXPECT_EQ(varied["makespan_ns"], plain["makespan_ns"]) << "is that without jitter";
  const Json& spread = varied["makespan_spread_ns"];
  EXPECT_EQ(spread["seeds"], 100);
  EXPECT_GT(spread["p50"], plain["makespan_ns"]) << "ranks wait for the slowest";
  EXPECT_GT(spread["p95"], spread["p50"]);
  double shares = 0;
  for (const Json& rank : varied["ranks"]) shares += rank["spread_share"].get<double>();
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_EQ(call(schedule + " --jitter 5% --json").out, call(schedule + " --jitter 5% --json").out);
  EXPECT_NE(json_of(schedule + " --jitter 5% --seeds 30")["makespan_spread_ns"], spread);
  EXPECT_FALSE(json_of(schedule + " --jitter 0").contains("makespan_spread_ns"));
  EXPECT_NE(
      call(schedule + " --jitter 5%").out.find("draws of 5.0 % jitter\n        caused by rank "),
      std::string::npos);
}

TEST(SpreadFlags, ASlowRankIsOneWithSuchTimes) {
  const Json slow = json_of(schedule + " --slow-rank 2:1.5");
  const Json given = json_of(schedule + " --forward 1ms,1ms,1.5ms,1ms --backward 2ms,2ms,3ms,2ms");
  EXPECT_EQ(slow["makespan_ns"], given["makespan_ns"]);
  const Json two = json_of(schedule + " --slow-rank 2:1.5,0:2");
  EXPECT_EQ(
      two["makespan_ns"],
      json_of(schedule + " --forward 2ms,1ms,1.5ms,1ms --backward 4ms,2ms,3ms,2ms")["makespan_ns"]);
  // Both chunks of a rank of a V.
  for (const std::string name : {"zb-v", "v-half", "v-min", "dualpipe-v"}) {
    const std::string v = "--schedule " + name + " --stages 2 --microbatches 6";
    const Json slow_point = json_of(v + " --slow-rank 1:1.5");
    const Json by_hand =
        json_of(v + " --forward 500us,750us,750us,500us --backward 1ms,1.5ms,1.5ms,1ms");
    EXPECT_EQ(slow_point["makespan_ns"], by_hand["makespan_ns"]) << name;
    EXPECT_GT(slow_point["makespan_ns"], json_of(v)["makespan_ns"]) << name;
  }
}

TEST(SpreadFlags, AreOfEverySchedule) {
  const Json all = json_of("schedules --compare --stages 4 --microbatches 8 --jitter 5%");
  for (const Json& row : all["rows"]) {
    const std::string name = row["schedule"];
    SCOPED_TRACE(name);
    EXPECT_GE(row["makespan_spread_ns"]["p95"], row["makespan_spread_ns"]["p50"]);
    if (row["virtual_stages"] != 1) continue;
    EXPECT_EQ(row["makespan_spread_ns"],
              json_of("--schedule " + name +
                      " --stages 4 --microbatches 8 --jitter 5%")["makespan_spread_ns"]);
  }
}

// What calibrate keeps counts without a flag.
TEST(SpreadFlags, FollowWhatWasMeasured) {
  const testing::TemporaryFolder folder;
  const std::string costs = folder / "costs.json";
  const std::string variation = R"(, "variation_ppm": [900000, 1000000, 1300000])";
  const auto write = [&](const std::string& more) {
    write_file(costs, R"({"format": "pipesim-costs", "version": 1, "stages": [
        {"forward_ns": 1000000, "backward_ns": 2000000},
        {"forward_ns": 1000000, "backward_ns": 2000000}], "calibration": {"from": ["run.json"],
        "entries": [{"name": "stage 0"}, {"name": "stage 1"}])" +
                          more + "}}");
  };
  const std::string line = "--schedule 1f1b --stages 2 --microbatches 4 --costs " + costs;
  write(variation);
  const Json measured = json_of(line);
  EXPECT_EQ(measured["makespan_spread_ns"],
            json_of(line + " --jitter measured")["makespan_spread_ns"]);
  EXPECT_FALSE(json_of(line + " --jitter 0").contains("makespan_spread_ns"));
  EXPECT_NE(call(line).out.find("caused by rank "), std::string::npos);
  write("");
  EXPECT_FALSE(json_of(line).contains("makespan_spread_ns"));
  testing::expect_one_sentence(call(line + " --jitter measured"), "pipesim", line, 2,
                               "the costs do not say what was measured");
  write(R"(, "variation_ppm": [1000000, 900000])");
  testing::expect_one_sentence(call(line), "pipesim", line, 2, "variation_ppm");
}

TEST(SpreadFlags, AreRefusedInOneSentence) {
  for (const auto& [flags, part] : std::vector<std::pair<std::string, std::string>>{
           {"--slow-rank 9:1.2", "--slow-rank: there is no rank 9; there are 4 ranks"},
           {"--slow-rank 3", "there is no ':'"},
           {"--slow-rank 3:0", "'0' is not a factor"},
           {"--slow-rank x:2", "'x' is not a rank"},
           {"--jitter -5%", "--jitter"},
           {"--jitter much", "--jitter"},
           {"--jitter 200%", "--jitter 200%: times vary by 100% at most"},
           {"--jitter measured", "the costs do not say what was measured"},
           {"--jitter 5% --seeds 0", "--seeds"},
           {"--jitter 5% --seeds 1000000", "at most 100,000 are drawn"},
           {"--seeds 10", "they are draws of --jitter"}}) {
    testing::expect_one_sentence(call(schedule + " " + flags), "pipesim", flags, 2, part);
  }
}

}  // namespace
}  // namespace pipesim
