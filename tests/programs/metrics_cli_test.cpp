// Each number has one value: the report, JSON and --explain of random predictions, and what other
// commands say of their traces.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "tests/files.h"
#include "tests/model_calls.h"
#include "tests/random_schedule.h"
#include "tests/thorough.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using testing::call;
using testing::Json;
using testing::json_of;
using testing::output_of;
using testing::pick;
using testing::unwrapped;

std::string any_of(std::mt19937_64& random, const std::vector<std::string>& choices) {
  return choices[static_cast<std::size_t>(pick(random, 0, std::ssize(choices) - 1))];
}

std::string random_prediction(std::mt19937_64& random) {
  const auto is_so = [&](int percent) { return pick(random, 1, 100) <= percent; };
  std::string line = fmt::format(
      "--schedule {} --stages {} --microbatches {} --model {} --cluster {} --p2p {}",
      any_of(random, {"gpipe", "1f1b", "interleaved", "zb-h1", "interleaved-zb", "zb-v"}),
      any_of(random, {"1", "2", "4"}), any_of(random, {"4", "8"}),
      any_of(random, {"gpt3-1.3b", "gpt2-xl", "llama-2-7b"}),
      any_of(random, {"dgx-a100", "dgx-h100", "mi300x-node", "a100-ethernet"}),
      any_of(random, {"async", "blocking", "fifo", "edge-fifo"}));
  if (is_so(50)) {
    line += " --data-parallel 2 --zero " + any_of(random, {"0", "1", "2"});
  } else if (is_so(40)) {
    line += " --data-parallel 2 --zero 3 --gather " + any_of(random, {"pass", "once", "window"});
  }
  if (is_so(30)) line += " --recompute " + any_of(random, {"full", "selective"});
  if (is_so(20)) line += " --tensor-parallel 2";
  if (is_so(30)) {
    line += " --accumulate " + any_of(random, {"2", "3"});
  } else if (is_so(30)) {
    line += " --iterations " + any_of(random, {"2", "3"});
  }
  if (is_so(30)) line += " --slow-rank 0:" + any_of(random, {"0.5", "1.5"});
  if (is_so(20)) line += " --jitter 5% --seeds 12";
  if (is_so(20)) {
    line += " --storage 20GB/s --checkpoint-every " + any_of(random, {"1", "2"});
  }
  return line;
}

std::int64_t total_of(const Json& numbers) {
  std::int64_t sum = 0;
  for (const Json& number : numbers) sum += number.get<std::int64_t>();
  return sum;
}

void expect_same(const Json& one, double other) {
  EXPECT_LE(std::abs(one.get<double>() - other), 1e-9 * std::abs(other)) << one << " " << other;
}

// What an iteration takes, by which all rates count.
std::int64_t iteration_ns(const Json& json) {
  return json[json["accumulate"] > 1 ? "steady_iteration_ns" : "makespan_ns"];
}

// JSON with itself.
void expect_one_value(const Json& json) {
  const std::int64_t makespan_ns = json["makespan_ns"];
  const Json& explained = json["explanation"];
  const double seconds = static_cast<double>(iteration_ns(json)) * 1e-9;
  const double flops = explained["model_flops"];
  expect_same(json["tokens_per_second"], explained["tokens"].get<double>() / seconds);
  expect_same(json["mfu"], flops / (explained["peak_flops_per_second"].get<double>() * seconds));
  expect_same(explained["hfu"], json["mfu"].get<double>() *
                                    (1 + explained["recomputed_flops"].get<double>() / flops));
  EXPECT_EQ(total_of(json["critical_path"]), makespan_ns);
  for (const Json& part : json["critical_path"]) EXPECT_GE(part, 0);
  const bool saves = json.contains("save");
  if (!saves) {
    EXPECT_EQ(explained["makespan_ns"], makespan_ns);
  }
  if (json["iterations"] == 1) {
    EXPECT_EQ(json["steady_iteration_ns"], makespan_ns);
  }
  double shares = 0;
  double busy = 0;
  for (std::size_t r = 0; r < json["ranks"].size(); ++r) {
    const Json& rank = json["ranks"][r];
    const Json& use = explained["ranks"][r];
    busy += rank["busy_ns"].get<double>();
    EXPECT_EQ(total_of(rank["bubble_ns"]) + rank["busy_ns"].get<std::int64_t>(), makespan_ns);
    for (const Json& part : rank["bubble_ns"]) EXPECT_GE(part, 0);
    if (!saves) {
      EXPECT_EQ(total_of(use["time_ns"]), rank["busy_ns"]);
    }
    for (const auto& [key, ns] : use["time_ns"].items()) {
      if (key != "hidden_reduction") {
        EXPECT_GE(ns, 0) << key;
      }
    }
    EXPECT_EQ(total_of(use["memory_bytes"]), rank["peak_memory_bytes"]);
    EXPECT_EQ(total_of(rank["memory_bytes"]), rank["peak_memory_bytes"]);
    if (!rank.contains("spread_share")) continue;
    EXPECT_GE(rank["spread_share"], 0);
    shares += rank["spread_share"].get<double>();
  }
  const double all = static_cast<double>(json["ranks"].size()) * static_cast<double>(makespan_ns);
  EXPECT_NEAR(json["bubble_fraction"]["global"].get<double>(), 1 - busy / all, 1e-9);
  if (json["ranks"][0].contains("spread_share")) {
    EXPECT_NEAR(shares, 1, 1e-9);
  }
}

// JSON with the report.
void expect_told(const Json& json, const std::string& report) {
  const std::string text = unwrapped(report);
  const auto expect = [&](const std::string& part) {
    EXPECT_NE(text.find(unwrapped(part)), std::string::npos) << part << "\n" << report;
  };
  const Json& explained = json["explanation"];
  const auto time = [](const Json& ns) { return format_time(ns.get<std::int64_t>()); };
  const double global = json["bubble_fraction"]["global"];
  expect(fmt::format("{:.0f} % bubble", global * 100));
  expect(": " + time(json["makespan_ns"]));
  if (json["accumulate"] > 1) {
    expect("each takes " + time(json["steady_iteration_ns"]) + " on average");
  } else if (json["iterations"] > 1) {
    expect("further iterations take " + time(json["steady_iteration_ns"]) + " each");
  }
  expect(fmt::format("{} tokens/s, {:.0f} % MFU",
                     format_count(std::llround(json["tokens_per_second"].get<double>())),
                     json["mfu"].get<double>() * 100));
  expect(fmt::format("bubble global {} of all ranks' time", format_percent(global)));
  expect("span " + format_percent(json["bubble_fraction"]["span"].get<double>()));
  const Json& path = json["critical_path"];
  if (path["p2p_ns"] > 0) {
    expect(fmt::format("critical path {} compute, {} transfers", time(path["compute_ns"]),
                       time(path["p2p_ns"])));
  }
  expect(fmt::format("{} tokens in {}; the model needs",
                     format_count(explained["tokens"].get<std::int64_t>()),
                     format_time(iteration_ns(json))));
  expect(format_percent(json["mfu"].get<double>()) + " of the");
  if (explained["recomputed_flops"] > 0) {
    expect(format_percent(explained["hfu"].get<double>()) + " (HFU)");
  }
  expect((json["fits"] == true ? "the fullest rank holds " : "needs ") +
         format_bytes(json["peak_memory_bytes"].get<std::int64_t>()));
}

// JSON with what `pipesim report` and `compare` say of the trace.
void expect_read_back(const Json& json, const std::string& trace) {
  if (json["iterations"] > 1) return;  // they describe the median one, not the first
  const Json read = json_of("report " + trace);
  EXPECT_TRUE(read["warnings"].empty()) << read["warnings"];
  EXPECT_EQ(read["makespan_ns"], json["makespan_ns"]);
  for (const char* metric : {"global", "span"}) {
    EXPECT_EQ(read["bubble_fraction"][metric], json["bubble_fraction"][metric]);
  }
  EXPECT_EQ(read["critical_path"], json["critical_path"]);
  for (std::size_t r = 0; r < json["ranks"].size(); ++r) {
    for (const char* key : {"busy_ns", "bubble_ns"}) {
      EXPECT_EQ(read["ranks"][r][key], json["ranks"][r][key]);
    }
  }
}

TEST(Metrics, HaveOneValueInReportJsonAndExplanation) {
  const testing::TemporaryFolder folder;
  const std::string trace = folder / "t.json";
  std::mt19937_64 random(5);
  const int wanted = testing::is_thorough() ? 1000 : 20;
  for (int done = 0, tried = 0; done < wanted; ++tried) {
    ASSERT_LT(tried, 2 * wanted + 10);
    const std::string line = random_prediction(random) + " --explain";
    const testing::Outcome outcome = call(line + " --json --trace " + trace);
    if (outcome.status == 2) continue;  // the schedule has no such shape
    SCOPED_TRACE(line);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    expect_one_value(json);
    expect_told(json, output_of(line));
    expect_read_back(json, trace);
    if (HasFailure()) break;
    ++done;
  }
}

// All that a slower or faster rank computes takes so much more or less.
TEST(Metrics, OfASlowRankAreOfItsCompute) {
  const std::string line =
      "--schedule 1f1b --stages 2 --microbatches 4 --model gpt3-1.3b --cluster dgx-a100 --explain";
  const Json even = json_of(line)["explanation"]["ranks"];
  for (const double factor : {0.5, 1.5}) {
    const Json uneven =
        json_of(fmt::format("{} --slow-rank 0:{}", line, factor))["explanation"]["ranks"];
    EXPECT_EQ(uneven[1]["time_ns"], even[1]["time_ns"]);
    for (const auto& [key, ns] : even[0]["time_ns"].items()) {
      const bool is_compute = key != "messages" && key != "optimizer" && key != "reduction";
      const double want = ns.get<double>() * (is_compute ? factor : 1);
      EXPECT_NEAR(uneven[0]["time_ns"][key].get<double>(), want, 1000) << key;
    }
    EXPECT_EQ(uneven[0]["time_ns"]["beside_transfers"], 0);
  }
}

// DualPipe's stages are on two ranks each, and so are their exchanges with replicas.
TEST(Metrics, OfStagesOnTwoRanksAreReadBack) {
  const testing::TemporaryFolder folder;
  const std::string trace = folder / "t.json";
  for (const char* zero : {"1", "2", "3 --gather pass", "3 --gather once"}) {
    const Json json = json_of(
        fmt::format("--schedule dualpipe --stages 4 --microbatches 8 --model gpt2-xl --cluster "
                    "dgx-h100 --data-parallel 2 --zero {} --trace {}",
                    zero, trace));
    expect_read_back(json, trace);
    const Json compared = json_of("compare " + trace + " " + trace);
    EXPECT_EQ(compared["unmatched"]["predicted"], 0) << zero;
  }
}

// A comparison's critical path is of the same parts as the prediction's.
TEST(Metrics, OfAComparisonAreThoseOfThePrediction) {
  const testing::TemporaryFolder folder;
  const std::string trace = folder / "t.json";
  for (const char* flags :
       {"", "--p2p blocking", "--p2p fifo --data-parallel 2 --zero 3 --gather pass",
        "--data-parallel 2 --zero 2 --slow-rank 0:1.5", "--p2p blocking --data-parallel 2"}) {
    const Json json = json_of(testing::schedule + " --model gpt2-xl --cluster a100-ethernet " +
                              flags + " --trace " + trace);
    const Json compared = json_of("compare " + trace + " " + trace)["critical_path"];
    EXPECT_GT(json["critical_path"]["other_ns"], 0);
    for (const auto& [key, ns] : json["critical_path"].items()) {
      EXPECT_EQ(compared["predicted"][key], ns) << key << " " << flags;
    }
  }
}

// A trace whose rank 0 is ahead is put right, and says so, whichever command reads it.
TEST(Metrics, OfWrongClocksAreCorrectedByEveryCommand) {
  const testing::TemporaryFolder folder;
  const std::string right = folder / "right.json";
  const std::string wrong = folder / "wrong.json";
  output_of("--schedule 1f1b --stages 2 --microbatches 3 --quiet --trace " + right);
  for (const double ahead_us : {500.0, -1e9}) {
    Json trace = Json::parse(read_file(right));
    for (Json& event : trace["traceEvents"]) {
      if (event["pid"] == 1 && event.contains("ts")) {
        event["ts"] = event["ts"].get<double>() + ahead_us;
      }
    }
    write_file(wrong, trace.dump());
    for (const std::string& line :
         {"report " + wrong, "compare " + right + " " + wrong, "compare " + wrong + " " + right,
          "calibrate " + wrong + " --output " + (folder / "costs.json"),
          "whatif " + wrong + " --scale B=2"}) {
      const testing::Outcome outcome = call(line);
      EXPECT_EQ(outcome.status, 0) << line << outcome.err;
      EXPECT_NE(unwrapped(outcome.out + outcome.err).find("clocks are shifted by up to"),
                std::string::npos)
          << line << "\n"
          << outcome.out << outcome.err;
    }
    const Json read = json_of("report " + wrong);
    const Json want = json_of("report " + right);
    EXPECT_TRUE(want["warnings"].empty());
    for (const char* key : {"makespan_ns", "critical_path", "bubble_fraction"}) {
      EXPECT_EQ(read[key], want[key]) << key;
    }
  }
}

}  // namespace
}  // namespace pipesim
