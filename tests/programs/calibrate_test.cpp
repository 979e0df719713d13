// `pipesim calibrate` as a user runs it: traces in, costs out, refusals.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/command.h"
#include "tests/files.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

class CalibrateCommand : public ::testing::Test {
 protected:
  void predict(const std::string& schedule, const std::string& stages, const std::string& file,
               const std::string& forward = "1ms") {
    const auto outcome =
        testing::pipesim({"--schedule", schedule, "--stages", stages, "--microbatches", "6",
                          "--forward", forward, "--p2p-latency", "30us", "--trace", folder / file});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  std::int64_t makespan(const std::vector<std::string>& arguments) {
    auto all = arguments;
    all.emplace_back("--json");
    const auto outcome = testing::pipesim(all);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out)["makespan_ns"];
  }
  void refuse(const std::vector<std::string>& arguments, const std::string& part) {
    std::vector<std::string> all{"calibrate"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    testing::expect_one_sentence(testing::pipesim(all), "pipesim", ::testing::PrintToString(all), 2,
                                 part);
  }

  testing::TemporaryFolder folder;
};

TEST_F(CalibrateCommand, WritesCostsThatPredict) {
  predict("zb-h1", "4", "zb.json.gz", "1.5ms");
  const auto outcome =
      testing::pipesim({"calibrate", folder / "zb.json.gz", "-o", folder / "costs.json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part : {"Calibrated from ", "zb-h1, 4 ranks", "stage 3", "1500-1500",
                           "all their time to be latency", "Costs: "}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "zb-h2"}) {
    EXPECT_EQ(makespan({"--schedule", schedule, "--stages", "4", "--microbatches", "9", "--costs",
                        folder / "costs.json"}),
              makespan({"--schedule", schedule, "--stages", "4", "--microbatches", "9", "--forward",
                        "1.5ms", "--p2p-latency", "30us"}));
  }
}

// Times include them, which is said, with what report says of them.
TEST_F(CalibrateCommand, SaysWhatLaunchesAddToTimes) {
  const std::string trace = folder / "late.json";
  const auto ran = testing::run_command({PIPEEXEC_COMMAND, "--transport", "local", "--schedule",
                                         "1f1b", "--stages", "4", "--microbatches", "8", "--device",
                                         "emulated", "--iterations", "3", "--faults",
                                         "launch@rank0=1250us", "--quiet", "--trace", trace});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto outcome =
      testing::pipesim({"calibrate", trace, "-o", folder / "costs.json"}, {"COLUMNS=400"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("launches: ranks start actions later than they could"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("rank 0 most"), std::string::npos) << outcome.out;
}

TEST_F(CalibrateCommand, OfATrainingPredictsOtherLayouts) {
  const auto run = testing::run_command(
      {PIPEEXEC_COMMAND, "--transport", "local", "--stages", "2", "--schedule", "gpipe",
       "--microbatches", "4", "--iterations", "2", "--micro-batch-size", "1", "--sequence-length",
       "8", "--model", "mlp-mini", "--trace", folder / "run.json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto outcome =
      testing::pipesim({"calibrate", folder / "run.json", "-o", folder / "costs.json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("embedding"), std::string::npos) << outcome.out;
  // A layer's time is between its own percentiles, including its action's additional time.
  const auto costs = nlohmann::json::parse(read_file(folder / "costs.json"));
  for (std::size_t i = 0; i < costs["layers"].size(); ++i) {
    for (const char* time : {"forward_ns", "backward_input_ns", "backward_weight_ns"}) {
      const auto& spread = costs["calibration"]["entries"][i][time];
      const auto ns = costs["layers"][i][time].get<std::int64_t>();
      EXPECT_LE(spread["p10_ns"].get<std::int64_t>(), ns + 1) << i << " " << time;
      EXPECT_GE(spread["p90_ns"].get<std::int64_t>(), ns - 1) << i << " " << time;
    }
  }
  for (const char* layout : {"5,5", "4,1,2,3"}) {
    const std::string stages = layout == std::string("5,5") ? "2" : "4";
    EXPECT_GT(makespan({"--schedule", "1f1b", "--stages", stages, "--microbatches", "9", "--costs",
                        folder / "costs.json", "--layout", layout}),
              0);
  }
}

// Of two replicas with one size of buckets: another, other numbers of replicas, what they split.
TEST_F(CalibrateCommand, OfReplicasPredictsOthers) {
  const std::string stage =
      R"({"forward_ns":1000000,"backward_ns":2000000,"parameters":5000,"optimizer_bytes":80})";
  write_file(folder / "given.json", R"({"format":"pipesim-costs","version":1,"stages":[)" + stage +
                                        "," + stage +
                                        R"(],"replicas":{"bandwidth_bytes_per_s":200000}})");
  const std::vector<std::string> pipeline{"--schedule", "1f1b",           "--stages",
                                          "2",          "--microbatches", "3"};
  const auto with = [&](const std::string& costs, const std::string& flags) {
    std::vector<std::string> all = pipeline;
    all.insert(all.end(), {"--costs", folder / costs});
    for (const std::string_view flag : split(flags, ' ')) all.emplace_back(flag);
    return all;
  };
  std::vector<std::string> run{
      PIPEEXEC_COMMAND, "--device", "emulated", "--transport",       "local",
      "--iterations",   "3",        "--trace",  folder / "run.json", "--quiet"};
  const auto more = with("given.json", "--data-parallel 2 --bucket-bytes 8kB");
  run.insert(run.end(), more.begin(), more.end());
  const auto ran = testing::run_command(run);
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto outcome =
      testing::pipesim({"calibrate", folder / "run.json", "-o", folder / "costs.json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("replicas  "), std::string::npos) << outcome.out;
  const auto costs = nlohmann::json::parse(read_file(folder / "costs.json"));
  EXPECT_EQ(costs["stages"][0]["parameters"], 5000);
  EXPECT_EQ(costs["stages"][0]["optimizer_bytes"], 80);
  // Twice 150 ms of exchanges of 20 kB by 200 kB/s and more, far from what other processes add to
  // the 3 ms of each microbatch.
  const auto alone = makespan(with("costs.json", "--data-parallel 1"));
  const auto two = makespan(with("costs.json", "--data-parallel 2"));
  EXPECT_GT(two, alone + 60'000'000);
  EXPECT_GT(makespan(with("costs.json", "--data-parallel 4")), two + 30'000'000);
  EXPECT_LT(makespan(with("costs.json", "--data-parallel 2 --bucket-bytes 4kB")), two);
  EXPECT_GT(makespan(with("costs.json", "--data-parallel 2 --zero 2")), two);
  EXPECT_GT(makespan(with("costs.json", "--data-parallel 4 --zero 3 --shard-over 2")), alone);

  // Where costs don't say, and where flags don't fit.
  const auto refuse_with = [&](const std::vector<std::string>& all, const std::string& part) {
    testing::expect_one_sentence(testing::pipesim(all), "pipesim", ::testing::PrintToString(all), 2,
                                 part);
  };
  predict("gpipe", "2", "plain.json");
  ASSERT_EQ(
      testing::pipesim({"calibrate", folder / "plain.json", "-o", folder / "plain.costs"}).status,
      0);
  refuse_with(with("plain.costs", "--data-parallel 2"), "the time of an exchange with replicas");
  refuse_with(with("costs.json", "--zero 4"), "the stages are 0 (nothing sharded)");
  refuse_with(with("costs.json", "--data-parallel 2 --tensor-parallel 2"), "both give costs");
}

// Of an H100 that no other rank shared: what it took is what its own durations predict, but for the
// start of an iteration.
TEST_F(CalibrateCommand, PredictsWhatAGpuTook) {
  const std::string trace = testing::source_file("traces/recorded/h100_one_rank.json.gz");
  const std::string predicted = folder / "predicted.json";
  ASSERT_EQ(testing::pipesim({"calibrate", trace, "-o", folder / "h100.costs"}).status, 0);
  ASSERT_EQ(testing::pipesim({"--schedule", "1f1b", "--stages", "1", "--microbatches", "16",
                              "--costs", folder / "h100.costs", "--trace", predicted})
                .status,
            0);
  const testing::Outcome compared = testing::pipesim({"compare", predicted, trace, "--json"});
  ASSERT_EQ(compared.status, 0) << compared.err;
  const auto json = nlohmann::json::parse(compared.out);
  const double ours = json["makespan_ns"]["predicted"];
  const double theirs = json["makespan_ns"]["measured"];
  EXPECT_NEAR(ours / theirs, 1, 0.03);
}

// Ranks that shared one.
TEST_F(CalibrateCommand, ReadsWhatRanksThatShareAGpuDid) {
  for (const std::string schedule : {"1f1b", "interleaved", "zb-h1"}) {
    const std::string trace = testing::source_file("traces/recorded/h100_" + schedule + ".json.gz");
    const testing::Outcome report = testing::pipesim({"report", trace});
    EXPECT_EQ(report.status, 0) << report.err;
    EXPECT_NE(report.out.find(", 4 ranks"), std::string::npos) << report.out;
    EXPECT_EQ(testing::pipesim({"calibrate", trace, "-o", folder / "c.json"}).status, 0) << trace;
  }
}

TEST_F(CalibrateCommand, RefusesWhatItCannotUse) {
  predict("gpipe", "2", "a.json");
  predict("gpipe", "3", "b.json");
  write_file(folder / "no.json", "{}");
  write_file(folder / "costs.json", "before");
  refuse({}, "traces");
  refuse({folder / "a.json"}, "--output");
  refuse({folder / "a.json", "-o", folder / "a.json"}, "name the same file");
  refuse({folder / "a.json", "-o", folder.path().string() + "/./a.json"}, "name the same file");
  refuse({folder / "a.json", folder / "b.json", "-o", folder / "costs.json"}, "have 2 and 3 ranks");
  refuse({folder / "a.json", folder / "a.json", "-o", folder / "costs.json"}, "is given twice");
  refuse({folder / "missing.json", "-o", folder / "costs.json"}, "missing.json");
  refuse({folder / "no.json", "-o", folder / "costs.json"}, "no.json");
  refuse({folder / "a.json", "-o", folder / "costs.json.gz"}, "omit .gz");
  EXPECT_EQ(read_file(folder / "costs.json"), "before");
}

}  // namespace
}  // namespace pipesim
