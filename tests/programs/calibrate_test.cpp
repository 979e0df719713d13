// `pipesim calibrate` as a user runs it: traces in, costs out, refusals.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/command.h"
#include "tests/files.h"
#include "traces/base/files.h"

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
  // What a layer takes lies between its own percentiles, what its action takes beside included.
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
  refuse({folder / "a.json", "-o", folder / "costs.json.gz"}, "leave .gz away");
  EXPECT_EQ(read_file(folder / "costs.json"), "before");
}

}  // namespace
}  // namespace pipesim
