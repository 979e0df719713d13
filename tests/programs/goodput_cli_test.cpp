// `pipesim goodput`, as a user gives it.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "sim/cost/model.h"
#include "sim/goodput/run.h"
#include "tests/model_calls.h"

namespace pipesim {
namespace {

using namespace testing;

const std::string job =
    "goodput --model llama-3-70b --devices 1024 --mtbf 7.9h --restart 10min --storage 100GB/s "
    "--iteration-time 12s";
const std::string short_run =
    "goodput --iteration-time 50ms --mtbf 3s --restart 200ms --save-time 5ms --interval 20 --work "
    "60s --seed 7 --trials 1";

double sum_of_all(const Json& json) {
  const Json& lost = json["lost"];
  return json["goodput"].get<double>() + lost["saving"].get<double>() +
         lost["repeating"].get<double>() + lost["restarting"].get<double>();
}

// By the formulas, written down again.
TEST(GoodputCommand, SaysIntervalAndShares) {
  const Json json = json_of(job);
  EXPECT_EQ(json["format"], "pipesim-goodput");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["devices"], 1024);
  EXPECT_EQ(json["mtbf_ns"], 28'440'000'000'000);
  const std::int64_t bytes = 14 * find_model("llama-3-70b").parameters();
  EXPECT_EQ(json["checkpoint_bytes"], bytes);
  const double save = std::ceil(static_cast<double>(bytes) / 100);
  EXPECT_EQ(json["save_ns"].get<double>(), save);
  const double mtbf = 28'440e9;
  const auto interval = json["interval_ns"].get<double>();
  EXPECT_EQ(json["best_interval_ns"], json["interval_ns"]);
  EXPECT_EQ(json["interval_iterations"].get<double>() * 12e9, interval);
  EXPECT_NEAR(json["young_interval_ns"].get<double>(), std::sqrt(2 * save * mtbf), 1);
  const auto goodput = [&](double tau) {
    return tau / (mtbf * std::exp(600e9 / mtbf) * std::expm1((tau + save) / mtbf));
  };
  EXPECT_NEAR(json["goodput"].get<double>(), goodput(interval), 1e-12);
  EXPECT_GE(goodput(interval), goodput(interval + 12e9));
  EXPECT_GE(goodput(interval), goodput(interval - 12e9));
  EXPECT_NEAR(sum_of_all(json), 1, 1e-12);
  EXPECT_LT(json["goodput_p5"], json["goodput_p50"]);
  EXPECT_LT(json["goodput_p50"], json["goodput_p95"]);
  EXPECT_NEAR(json["goodput_mean"].get<double>(), json["goodput"].get<double>(), 0.002);
  EXPECT_EQ(output_of(job + " --json"), output_of(job + " --json"));
  EXPECT_FALSE(json.contains("trial"));
}

// More devices fail more often; a restart from the same rate is a smaller or larger part.
TEST(GoodputCommand, HasARowForEachNumberOfDevices) {
  const std::string line =
      "goodput --model llama-3-405b --devices 1024,4096,16384 --device-mtbf 50000h --restart 10min "
      "--storage 2GB/s/device --iteration-time 12s --trials 50";
  const Json json = json_of(line);
  ASSERT_EQ(json["curve"].size(), 3U);
  double before = 1;
  for (const Json& row : json["curve"]) {
    EXPECT_NEAR(row["mtbf_ns"].get<double>(), 1.8e17 / row["devices"].get<double>(), 1);
    EXPECT_NEAR(sum_of_all(row), 1, 1e-12);
    EXPECT_LT(row["goodput"], before);
    before = row["goodput"];
  }
  EXPECT_EQ(json["goodput"], json["curve"][0]["goodput"]);
  const std::string text = output_of(line);
  std::istringstream lines(text);
  for (std::string row; std::getline(lines, row);) EXPECT_LE(row.size(), 80U) << row;
  EXPECT_NE(text.find("16,384"), std::string::npos);
  // --mtbf is of the first.
  const Json by_job = json_of(replaced(line, "--device-mtbf 50000h", "--mtbf 48.828125h"));
  EXPECT_EQ(by_job["curve"], json["curve"]);
}

TEST(GoodputCommand, FitsATerminal) {
  for (const std::string& line :
       {job, job + " --interval 7", job + " --async-checkpoint", short_run}) {
    std::istringstream lines(output_of(line, {"COLUMNS=80"}));
    for (std::string row; std::getline(lines, row);) EXPECT_LE(row.size(), 80U) << row;
  }
}

// The iteration is the one that pipesim predicts.
TEST(GoodputCommand, PredictsTheIteration) {
  const std::string rest = " --mtbf 3h --restart 5min --storage 2GB/s --trials 20";
  const std::string model = small + " --data-parallel 2";
  const Json json = json_of("goodput " + model + rest);
  EXPECT_EQ(json["iteration_ns"], json_of(model)["makespan_ns"]);
  EXPECT_EQ(json["devices"], 8);
  EXPECT_EQ(json["interval_ns"].get<std::int64_t>() % json["iteration_ns"].get<std::int64_t>(), 0);
  const Json sizes = json_of("goodput " + small + " --devices 4,16" + rest);
  EXPECT_EQ(sizes["curve"][0]["iteration_ns"], json_of(small)["makespan_ns"]);
  EXPECT_EQ(sizes["curve"][1]["iteration_ns"], json_of(small + " --devices 16")["makespan_ns"]);
  EXPECT_NEAR(sizes["curve"][1]["mtbf_ns"].get<double>(), 2700e9, 1);
  const Json given = json_of("goodput " + schedule +
                             " --forward 1s --backward 2s --mtbf 3h "
                             "--restart 5min --checkpoint-bytes 1TB --storage 2GB/s --trials 20");
  EXPECT_EQ(given["iteration_ns"], 33'000'000'000);
  EXPECT_EQ(given["devices"], nullptr);
}

// Without the iteration's time intervals are what they are.
TEST(GoodputCommand, NeedsNoIteration) {
  const Json json = json_of(
      "goodput --model llama-3-70b --cluster dgx-h100 --devices 1024 --mtbf 3h --storage 2GB/s "
      "--restart 5min --trials 20");
  EXPECT_EQ(json["iteration_ns"], nullptr);
  EXPECT_EQ(json["interval_iterations"], nullptr);
  EXPECT_NEAR(json["interval_ns"].get<double>() / json["daly_interval_ns"].get<double>(), 1, 0.01);
}

TEST(GoodputCommand, SavesAsynchronously) {
  const Json both = json_of(job);
  const Json json = json_of(job + " --async-checkpoint --cluster dgx-h100");
  EXPECT_GT(json["goodput"], both["goodput"]);
  const auto bytes = json["checkpoint_bytes"].get<double>();
  EXPECT_NEAR(json["save_held_ns"].get<double>(), bytes / (1024 * 55.0), 1);
  EXPECT_NEAR(json["save_ns"].get<double>(), bytes / (1024 * 55.0) + bytes / 100, 2);
  EXPECT_EQ(json_of(job + " --async-checkpoint --copy 55GB/s/device"), json);
  EXPECT_EQ(json_of(job + " --async-checkpoint --copy 300ms")["save_held_ns"], 300'000'000);
  EXPECT_GE(json["interval_ns"].get<double>(), bytes / 100);
  EXPECT_NEAR(sum_of_all(json), 1, 1e-12);
}

// One trial, with its failures: the same run by the same failures.
TEST(GoodputCommand, SaysWhatOneRunMeets) {
  const Json json = json_of(short_run);
  const auto failures = json["failures_ns"].get<std::vector<std::int64_t>>();
  const RunTimes times =
      run_with({{3'000'000'000, 5'000'000, 0, 200'000'000}, 50'000'000, 1200, 20}, failures);
  const Json& trial = json["trial"];
  EXPECT_EQ(trial["wall_ns"], times.wall_ns());
  EXPECT_EQ(trial["failures"], times.failures);
  EXPECT_EQ(trial["goodput"].get<double>(), 60e9 / trial["wall_ns"].get<double>());
  EXPECT_NEAR(sum_of_all(trial), 1, 1e-12);
  EXPECT_GT(times.failures, 5);
  EXPECT_GT(std::ssize(failures), times.failures) << "a slower run meets more";
  EXPECT_LT(failures.back(), 2 * times.wall_ns());
  EXPECT_EQ(json["goodput_p5"], trial["goodput"]);
  EXPECT_EQ(json["goodput_p95"], trial["goodput"]);
  EXPECT_NE(json_of(short_run + "1")["failures_ns"], json["failures_ns"]);
  const Json other = json_of(replaced(short_run, "--seed 7", "--seed 8"));
  EXPECT_NE(other["failures_ns"], json["failures_ns"]);
  EXPECT_EQ(other["goodput"], json["goodput"]);
}

TEST(GoodputCommand, SaysWhereNothingProgresses) {
  const std::string line =
      "goodput --checkpoint-bytes 1TB --storage 1GB/s --mtbf 10s --restart 1min --iteration-time "
      "1s";
  const Json json = json_of(line);
  EXPECT_LT(json["goodput"], 1e-12);
  EXPECT_NEAR(sum_of_all(json), 1, 1e-12);
  EXPECT_EQ(json["goodput_p50"], nullptr);
  const std::string text = unwrapped(output_of(line));
  EXPECT_NE(text.find("Next to nothing progresses: failures come every 10.0 s"), std::string::npos);
  EXPECT_NE(text.find("simulated nothing: 1,000 runs"), std::string::npos);
}

TEST(GoodputCommand, RefusesInOneSentence) {
  const std::string plain =
      "goodput --model llama-3-70b --devices 1024 --restart 10min --storage 100GB/s "
      "--iteration-time 12s";
  for (const auto& [line, part] : std::vector<std::pair<std::string, std::string>>{
           {plain, "--mtbf is missing"},
           {plain + " --mtbf 0", "leaves no time to train; give a longer one"},
           {plain + " --mtbf 0h", "leaves no time to train; give a longer one"},
           {plain + " --mtbf -3h", "--mtbf: '-3h' is negative"},
           {plain + " --mtbf 3", "--mtbf: '3' has no unit; write one of ns, us, ms, s, min, h, d"},
           {plain + " --mtbf 1e99h", "is too large"},
           {plain + " --mtbf 3h --device-mtbf 3h", "keep one"},
           {plain + " --device-mtbf 100ns", "less than 1 ns"},
           {replaced(job, "--devices 1024", "--devices 0"), "--devices: 0 must be 1 or more"},
           {replaced(job, "--devices 1024", "--devices 8,,16"), "--devices: '' is not a whole"},
           {replaced(job, "--devices 1024", "") + " --async-checkpoint", "give --devices"},
           {replaced(job, "llama-3-70b", "lama-3-70b"), "known"},
           {replaced(job, "100GB/s", "0GB/s"), "a rate of 0 never saves anything"},
           {replaced(job, "100GB/s", "100GB"), "--storage"},
           {replaced(job, "100GB/s", "1B/s"), "--storage"},
           {replaced(job, "--storage 100GB/s", ""), "--storage is missing"},
           {replaced(job, "--restart 10min", ""), "--restart is missing"},
           {replaced(job, "--model llama-3-70b", ""), "the size of a save is missing"},
           {replaced(job, "12s", "0s"), "--iteration-time"},
           {job + " --trials 0", "--trials: 0 must be 1 or more"},
           {job + " --trials 1000000", "at most 100,000 are simulated"},
           {job + " --seed x", "--seed: 'x' is not a whole number"},
           {job + " --work 0d", "--work: '0d' is no work"},
           {job + " --work 1e99d", "is too large"},
           {job + " --interval 0", "--interval: 0 must be 1 or more"},
           {job + " --interval 1000000000", "save more often"},
           {job + " --save-time 3s", "--save-time and --storage both give"},
           {job + " --copy 1s", "belongs to --async-checkpoint"},
           {job + " --stages 4", "--iteration-time and --stages both give"},
           {replaced(job, "--iteration-time 12s", "--interval 3"), "--interval: is in iterations"},
           {replaced(job, "--iteration-time 12s", "--tensor-parallel 8"), "--cluster is missing"},
           {"goodput " + small + " --devices 6 --mtbf 3h --restart 1s --storage 2GB/s",
            "--devices 6"},
           {"goodput --save-time 0 --mtbf 3h --restart 1s", "give --iteration-time"},
           {"goodput --save-time 1s --async-checkpoint --mtbf 3h --restart 1s",
            "--copy is missing"},
           {short_run + " --async-checkpoint --copy 1ms --save-time 5min", "--save-time"}}) {
    expect_one_sentence(call(line), "pipesim", line, 2, part);
  }
  expect_one_sentence(call(replaced(short_run, "5ms", "3s") + " --async-checkpoint --copy 1ms"),
                      "pipesim", short_run, 2, "nearest valid: 60");
}

}  // namespace
}  // namespace pipesim
