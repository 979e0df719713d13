// pipesim driven as a user would: what it prints, writes, refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include "sim/cost/costs.h"
#include "sim/engine/record_run.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "tests/command.h"
#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::call;
using testing::expect_refused;
using testing::golden;
using testing::Json;
using testing::json_of;
using testing::Outcome;
using testing::output_of;
using testing::unwrapped;

TEST(Predict, PrintsTheContractsKeys) {
  const Json json = json_of("--schedule 1f1b --stages 4 --microbatches 8 --activation-bytes 1MiB");
  EXPECT_EQ(json["format"], "pipesim-result");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["schedule"], "1f1b");
  EXPECT_EQ(json["stages"], 4);
  EXPECT_EQ(json["virtual_stages"], 1);
  EXPECT_EQ(json["microbatches"], 8);
  EXPECT_EQ(json["p2p"], "async");
  EXPECT_EQ(json["makespan_ns"], 33'000'000);
  EXPECT_EQ(json["bubble_fraction"]["global"].get<double>(), 9.0 / 33);
  EXPECT_EQ(json["bubble_fraction"]["span"].get<double>(), 9.0 / 33);
  EXPECT_EQ(json["bubble_fraction"]["closed_form"],
            (Json{{"metric", "global"}, {"fraction", 9.0 / 33}}));
  EXPECT_EQ(json["peak_activation_chunks"], 4);
  EXPECT_EQ(json["peak_activation_bytes"], 4 << 20);
  EXPECT_EQ(json["peak_memory_bytes"], 4 << 20);
  EXPECT_EQ(json["critical_path"],
            (Json{{"compute_ns", 33'000'000}, {"p2p_ns", 0}, {"other_ns", 0}}));
  ASSERT_EQ(json["ranks"].size(), 4U);
  EXPECT_EQ(
      json["ranks"][1],
      (Json{{"rank", 1},
            {"busy_ns", 24'000'000},
            {"first_start_ns", 1'000'000},
            {"last_end_ns", 31'000'000},
            {"bubble_ns", {{"warmup", 5'000'000}, {"steady", 0}, {"drain", 4'000'000}, {"p2p", 0}}},
            {"peak_activation_chunks", 3},
            {"peak_activation_bytes", 3 << 20},
            {"peak_memory_bytes", 3 << 20},
            {"peak_memory",
             {{"action", "1F2"},
              {"time_ns", 3'000'000},
              {"weight_residue_bytes", 0},
              {"send_buffer_bytes", 0},
              {"receive_buffer_bytes", 0}}},
            {"memory_bytes",
             {{"weights", 0},
              {"gradients", 0},
              {"optimizer", 0},
              {"activations", 3 << 20},
              {"buffers", 0}}}}));
  EXPECT_FALSE(json.contains("fits"));
}

// Of what the modes differ in: 1F1B holds its ranks, its streams, or nothing.
TEST(Predict, ModesOfTransfer) {
  const std::string line = "--schedule 1f1b --stages 4 --microbatches 8 --p2p-latency 100us ";
  std::vector<std::int64_t> makespans;
  for (const char* mode : {"async", "edge-fifo", "fifo", "blocking"}) {
    const Json json = json_of(line + "--p2p " + mode);
    EXPECT_EQ(json["p2p"], mode);
    EXPECT_EQ(json["eager_limit_bytes"], 0);
    makespans.push_back(json["makespan_ns"]);
    if (mode != std::string("async")) {
      EXPECT_EQ(json["bubble_fraction"]["closed_form"], nullptr);
    }
  }
  EXPECT_TRUE(std::ranges::is_sorted(makespans));
  EXPECT_EQ(makespans.front(), 34'600'000);
  // Two stages hold nothing up that an eager SEND would not.
  const Json eager = json_of(line + "--p2p blocking --p2p-bytes 4KiB --eager-limit 8KiB");
  EXPECT_EQ(eager["eager_limit_bytes"], 8192);
  EXPECT_LT(eager["makespan_ns"].get<std::int64_t>(), makespans.back());
  const Outcome person = call(line + "--p2p fifo");
  EXPECT_NE(person.out.find("8 microbatches, fifo transfers: "), std::string::npos) << person.out;
  EXPECT_NE(person.out.find("Asynchronous transfers would take 34.60 ms"), std::string::npos)
      << person.out;
  EXPECT_NE(person.out.find("but not here: transfers wait"), std::string::npos) << person.out;
}

TEST(Predict, SaysWhatWaitingCostsEitherWay) {
  // Eight results at once share their link: the first comes later than in turn.
  const Outcome shared = call(
      "--schedule gpipe --stages 2 --microbatches 8 --p2p-bytes 100MB --p2p-bandwidth 1GB/s "
      "--p2p fifo");
  EXPECT_NE(shared.out.find("ms more."), std::string::npos) << shared.out;
  EXPECT_EQ(shared.out.find(", -"), std::string::npos) << shared.out;
  const Outcome one = call("--schedule gpipe --stages 1 --microbatches 2 --p2p fifo");
  EXPECT_EQ(one.out.find("but not here"), std::string::npos) << one.out;
}

// What does not fit is shown, whatever it is.
TEST(Predict, ATableOfBuffersAlone) {
  const Outcome outcome = call(
      "--schedule gpipe --stages 2 --microbatches 8 --p2p-bytes 10MB --p2p-bandwidth 1GB/s "
      "--memory-cap 6MB");
  EXPECT_NE(outcome.out.find("buffers"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("peak at"), std::string::npos) << outcome.out;
}

TEST(Predict, MemoryByCategory) {
  const Json json =
      json_of("--schedule zb-h1 --stages 4 --microbatches 8 --costs " PIPESIM_SOURCE_DIR
              "/examples/shared_card.json --memory-cap 10GiB");
  for (const Json& rank : json["ranks"]) {
    const Json& bytes = rank["memory_bytes"];
    std::int64_t total = 0;
    for (const auto& [key, value] : bytes.items()) total += value.get<std::int64_t>();
    EXPECT_EQ(rank["peak_memory_bytes"], total);
    EXPECT_EQ(rank["fits"], total <= (std::int64_t{10} << 30));
    EXPECT_EQ(bytes["buffers"].get<std::int64_t>(),
              rank["peak_memory"]["send_buffer_bytes"].get<std::int64_t>() +
                  rank["peak_memory"]["receive_buffer_bytes"].get<std::int64_t>());
    EXPECT_EQ(bytes["optimizer"], 2 * 2415919104LL);
    EXPECT_TRUE(rank["peak_memory"]["action"].is_string());
  }
  EXPECT_EQ(json_of("--schedule gpipe --stages 2 --microbatches 2")["ranks"][0]["peak_memory"],
            nullptr);
  for (const char* columns : {"60", "120"}) {
    const Outcome person =
        call("--schedule zb-h1 --stages 4 --microbatches 8 --costs " PIPESIM_SOURCE_DIR
             "/examples/shared_card.json",
             {std::string("COLUMNS=") + columns});
    EXPECT_NE(person.out.find(std::string(columns) == "120" ? "gradients" : "states"),
              std::string::npos)
        << person.out;
    EXPECT_NE(person.out.find("peak at"), std::string::npos);
  }
}

TEST(Predict, FlagsMeanWhatTheContractSays) {
  EXPECT_EQ(json_of("--schedule zb-h2 --stages 4 --microbatches 8")["bubble_fraction"]["span"],
            0.0);
  EXPECT_EQ(json_of("--schedule 1f1b --stages 1 --microbatches 1 --backward 5ns")["makespan_ns"],
            1'000'005);
  EXPECT_EQ(json_of("--schedule interleaved --stages 2 --microbatches 2")["virtual_stages"], 2);
  EXPECT_EQ(json_of("--schedule 1f1b --stages 2 --microbatches 1 --forward 1ms,5ms")["makespan_ns"],
            10'000'000);
  EXPECT_EQ(json_of("--schedule 1f1b --stages 2 --microbatches 1 --p2p-latency 1us --p2p-bytes 10B "
                    "--p2p-bandwidth 3GB/s")["makespan_ns"],
            6'000'000 + 2 * 1004);
  EXPECT_EQ(
      json_of("--schedule interleaved --stages 2 --microbatches 5 --group 3")["makespan_ns"],
      json_of("--schedule " + golden("megatron_interleaved_pp2_vp2_m5_N3.csv"))["makespan_ns"]);
  EXPECT_EQ(
      json_of("--schedule bfs --placement 0,1,1,0 --stages 2 --microbatches 2")["makespan_ns"],
      json_of("--schedule bfs --placement v --stages 2 --microbatches 2")["makespan_ns"]);
}

TEST(Predict, SaysWhatFits) {
  const std::string line =
      "--schedule 1f1b --stages 4 --microbatches 8 --activation-bytes 1GiB --memory-cap 3GiB";
  const Json json = json_of(line);
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["ranks"][0]["fits"], false);
  EXPECT_EQ(json["ranks"][1]["fits"], true);
  EXPECT_NE(call(line).out.find("does not fit: 1 of 4 ranks exceeds 3.0 GiB; rank 0 needs 4.0 GiB"),
            std::string::npos);
}

TEST(Predict, ReadsCostsFiles) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "costs.json";
  write_file(path, R"({"format":"pipesim-costs","version":1,"layers":[
    {"forward_ns":10,"backward_ns":20,"weight_bytes":100,"activation_bytes":7},
    {"forward_ns":10,"backward_ns":20,"weight_bytes":100,"activation_bytes":7},
    {"forward_ns":30,"backward_ns":60,"weight_bytes":100,"activation_bytes":7}],
    "optimizer_ns":1000})");
  const std::string line = "--schedule 1f1b --stages 2 --microbatches 4 --costs " + path;
  const Json even = json_of(line);
  const Json better = json_of(line + " --layout 1,2");
  EXPECT_EQ(even["ranks"][0]["busy_ns"], 4 * 60 + 1000);
  EXPECT_EQ(better["ranks"][0]["busy_ns"], 4 * 30 + 1000);
  EXPECT_EQ(even["ranks"][0]["memory_bytes"]["weights"], 200);
  EXPECT_EQ(even["ranks"][0]["peak_memory_bytes"], 200 + 2 * 14);
  EXPECT_EQ(even["critical_path"]["other_ns"], 1000);
  EXPECT_EQ(even["bubble_fraction"]["closed_form"], nullptr);
}

TEST(Predict, IsTheSameToTheByte) {
  const testing::TemporaryFolder folder;
  const std::string line =
      "--schedule zb-h1 --stages 4 --microbatches 9 --p2p-latency 77us --activation-bytes 3MiB";
  for (const std::string& mode : {std::string(), std::string(" --json")}) {
    EXPECT_EQ(call(line + mode).out, call(line + mode).out);
  }
  for (const char* name : {"a.json", "b.json"}) {
    EXPECT_EQ(call(line + " --quiet --trace " + (folder / name)).out, "");
  }
  EXPECT_EQ(read_file(folder / "a.json"), read_file(folder / "b.json"));
}

// The trace alone holds what it takes to predict the same again.
TEST(Predict, TracesAllowAReplay) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "trace.json";
  const Outcome outcome = call(
      "--schedule interleaved-zb --stages 3 --microbatches 6 --forward 3ms --backward-input 4ms "
      "--backward-weight 2ms --p2p-latency 100us --p2p-bytes 1MB --p2p-bandwidth 10GB/s --quiet "
      "--trace " +
      path);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json trace = Json::parse(read_file(path));
  const Json& metadata = trace["metadata"]["pipesim"];
  EXPECT_EQ(metadata["format"], "pipesim-trace");
  std::string csv;
  for (const auto& row : metadata["program"]) csv += row.get<std::string>() + "\n";
  const Schedule schedule = parse_csv(csv, "replay");
  EXPECT_EQ(schedule.placement.rank_of_stage(), metadata["rank_of_stage"].get<std::vector<int>>());
  const Costs costs = parse_costs(metadata["costs"].dump(), "replay").costs;
  std::size_t slices = 0;
  std::int64_t last = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++slices;
    last = std::max<std::int64_t>(
        last, std::llround((event["ts"].get<double>() + event["dur"].get<double>()) * 1000));
  }
  const RecordedRun again = record_run(schedule, costs);
  EXPECT_EQ(again.spans.size(), slices);
  EXPECT_EQ(simulate(schedule, costs).makespan_ns, last);
  EXPECT_EQ(metadata["makespan_ns"], last);
}

// K iterations at least, and the last of each K with what ends a step.
TEST(Predict, IterationsAddUpToAStep) {
  const testing::TemporaryFolder folder;
  const std::string costs = folder / "costs.json";
  write_file(costs, R"({"format": "pipesim-costs", "version": 1,
    "stages": [{"forward_ns": 10, "backward_ns": 20}], "p2p": {"latency_ns": 0},
    "optimizer_ns": [7], "reduce_gradients_ns": [5]})");
  const std::string line = "--schedule gpipe --stages 1 --microbatches 2 --costs " + costs;
  const auto of = [&](const std::string& flags) {
    const Json json = json_of(line + flags);
    return std::tuple(json["iterations"].get<int>(), json["accumulate"].get<int>(),
                      json["makespan_ns"].get<int>(), json["steady_iteration_ns"].get<int>());
  };
  EXPECT_EQ(of(""), std::tuple(1, 1, 72, 72));
  EXPECT_EQ(of(" --accumulate 3"), std::tuple(3, 3, 60, 64));
  EXPECT_EQ(of(" --accumulate 3 --iterations 2"), std::tuple(3, 3, 60, 64));
  EXPECT_EQ(of(" --accumulate 3 --iterations 5"), std::tuple(5, 3, 60, (72 + 60 + 72) / 3));
  const std::string report = call(line + " --accumulate 2").out;
  EXPECT_NE(report.find("iterations, each takes 66 ns on average"), std::string::npos) << report;
  expect_refused(line + " --accumulate 0", 2, "--accumulate: 0 must be 1 or more");
}

// ZB-H2's ranks begin the next iteration while others end the one before.
TEST(Predict, IterationsFollowEachOther) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "trace.json";
  const std::string zero = "--schedule zb-h2 --stages 4 --microbatches 8 --activation-bytes 1MiB ";
  const Json one = json_of(zero);
  EXPECT_EQ(one["iterations"], 1);
  EXPECT_EQ(one["steady_iteration_ns"], 27'000'000);
  Json three = json_of(zero + "--iterations 3 --trace " + path);
  EXPECT_EQ(three["iterations"], 3);
  EXPECT_EQ(three["makespan_ns"], 27'000'000);
  EXPECT_EQ(three["steady_iteration_ns"], 24'000'000);
  for (const char* key : {"iterations", "steady_iteration_ns"}) three[key] = one[key];
  EXPECT_EQ(three, one) << "all else is of the first";
  EXPECT_NE(call(zero + "--iterations 3").out.find("iterations take 24.00 ms each"),
            std::string::npos);

  const Json metadata = Json::parse(read_file(path))["metadata"]["pipesim"];
  EXPECT_EQ(metadata["iterations"], 3);
  EXPECT_EQ(metadata["continuous"], true);
  const Json itself = json_of("compare " + path + " " + path);
  EXPECT_EQ(itself["iteration_ns"]["count"], 3);
  EXPECT_EQ(itself["iteration_ns"]["p10"], 24'000'000);
  EXPECT_EQ(itself["iteration_ns"]["p50"], 24'000'000);
  EXPECT_EQ(itself["makespan_ns"], (Json{{"predicted", 24'000'000}, {"measured", 24'000'000}}));
  for (const auto& [term, effect] : itself["gap_ns"].items()) EXPECT_EQ(effect, 0) << term;

  const std::string alone = folder / "alone.json";
  ASSERT_EQ(call(zero + "--quiet --trace " + alone).status, 0);
  const Json shorter = json_of("compare " + alone + " " + path);
  EXPECT_EQ(shorter["gap_ns"]["total"], -3'000'000);
  EXPECT_EQ(shorter["gap_ns"]["unmodelled"], 0);
  EXPECT_EQ(shorter["gap_ns"]["order"], 0);
  EXPECT_EQ(shorter["unmatched"], (Json{{"predicted", 0}, {"measured", 0}}));
  // The other way round, too: it is when ranks begin that differs.
  const Json longer = json_of("compare " + path + " " + alone);
  for (const auto& [term, effect] : longer["gap_ns"].items()) {
    EXPECT_EQ(effect, term == "total" || term == "launch" ? 3'000'000 : 0) << term;
  }
}

// In the compared iteration a rank may be through with some before it counts.
TEST(Predict, PicturesOfWhatBeginsEarly) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "trace.json";
  for (const char* shape : {"--stages 2 --microbatches 2 --forward 1ms,4ms --backward 2ms,6ms",
                            "--stages 3 --microbatches 1 --forward 1ms,1ms,2ms",
                            "--stages 4 --microbatches 200 --forward 1ms,4ms,1ms,1ms"}) {
    for (const char* name : {"zb-h1", "zb-h2"}) {
      SCOPED_TRACE(std::string(name) + " " + shape);
      ASSERT_EQ(call(std::string("--schedule ") + name + " " + shape +
                     " --iterations 3 --quiet --trace " + path)
                    .status,
                0);
      const Outcome outcome = call("compare " + path + " " + path);
      EXPECT_EQ(outcome.status, 0) << outcome.err;
      EXPECT_NE(outcome.out.find("Both are alike"), std::string::npos);
    }
  }
}

TEST(Predict, ExportsWhatItReadsAgain) {
  const testing::TemporaryFolder folder;
  for (const Family& family : all_families()) {
    const std::string path = folder / (std::string(family.name) + ".csv");
    const std::string shape = " --stages 4 --microbatches 8";
    Json direct = json_of("--schedule " + std::string(family.name) + shape + " --export " + path);
    Json again = json_of("--schedule " + path + shape);
    EXPECT_EQ(read_file(path).find("\r\n"), read_file(path).find('\n') - 1);
    for (Json* json : {&direct, &again}) {
      json->erase("schedule");
      (*json)["bubble_fraction"].erase("closed_form");
    }
    EXPECT_EQ(direct, again) << family.name;
  }
}

TEST(Predict, FitsTheTerminal) {
  for (const std::string& columns : {std::string("80"), std::string("200")}) {
    for (const char* line :
         {"--schedule 1f1b --stages 4 --microbatches 8",
          "--schedule interleaved --stages 8 --microbatches 32",
          "--schedule zb-h2 --stages 100 --microbatches 300 --p2p-latency 1.7us --activation-bytes "
          "123MB",
          "--schedule naive --stages 1 --microbatches 1 --forward 1ns --backward 0",
          "--schedule gpipe --stages 3 --microbatches 7 --forward 1.37ms,2.111ms,0.3ms",
          "--schedule gpipe --stages 4 --microbatches 4000 --activation-bytes 123.456GiB",
          "--schedule zb-h1 --stages 3 --microbatches 4 --forward 0 --backward 0",
          "--schedule naive --stages 64 --microbatches 128 --forward 1ns --backward 3ns",
          "schedules",
          "schedules --compare --stages 3 --microbatches 7,8 --memory-cap 2GiB "
          "--activation-bytes 1GiB"}) {
      const Outcome outcome = call(line, {"COLUMNS=" + columns});
      ASSERT_EQ(outcome.status, 0) << outcome.err;
      EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos) << "colours in a pipe";
      std::istringstream lines(outcome.out);
      for (std::string text; std::getline(lines, text);) {
        EXPECT_LE(text.size(), std::stoul(columns)) << line << "\n" << text;
        EXPECT_FALSE(text.ends_with(' ')) << '"' << text << '"';
      }
    }
  }
}

TEST(Predict, KnowsMegatronsNamesAndShortOnes) {
  const std::string model = "--model gpt2-large --cluster dgx-a100 --schedule 1f1b ";
  const Json own = json_of(model +
                           "--stages 4 --tensor-parallel 4 --sequence-length 512 "
                           "--global-batch 16 --attention fused");
  EXPECT_EQ(json_of(model + "--pipeline-model-parallel-size 4 --tensor-model-parallel-size=4 "
                            "--seq-length 512 --global-batch-size 16 --attention flash"),
            own);
  EXPECT_EQ(json_of(model + "--pp 4 --tp=4 --mbs 1 --gpus 16 --seq-length 512 --global-batch 16 "
                            "--attention flash"),
            own);
  EXPECT_EQ(testing::output_of("--help").find("model-parallel-size"), std::string::npos);
}

TEST(Predict, RefusesWrongInput) {
  const std::string good = "--schedule 1f1b --stages 4 --microbatches 8";
  expect_refused("--json", 2, "--schedule is missing");
  expect_refused("--schedule 1f1b --microbatches 8", 2, "--stages is missing");
  expect_refused("--schedule 1f1b --stages 4", 2, "--microbatches is missing");
  expect_refused("--schedule zbh1 --stages 4 --microbatches 8", 2,
                 "unknown schedule 'zbh1'; known, nearest first: zb-h1");
  expect_refused("--schedule zb-3p --stages 4 --microbatches 8", 2, "unknown schedule 'zb-3p'");
  expect_refused("--schedule README.md", 2, "unknown schedule 'README.md'");
  expect_refused(good + " --costs " + testing::source_file("README.md"), 2,
                 "README.md:1:1: not JSON");
  expect_refused("--schedule nothing.csv", 2, "cannot read 'nothing.csv'");
  expect_refused(good + " --stage 4", 2, "unknown flag '--stage'; known, nearest first: --stages");
  expect_refused(good + " --modle gpt3", 2,
                 "unknown flag '--modle'; known, nearest first: --model, ");
  expect_refused(good + " --context-parallel-size 2", 2,
                 "--context-parallel-size: there is no context parallelism here");
  expect_refused("compares a b", 2, "unknown subcommand 'compares'");
  expect_refused("--schedule 1f1b --stages 0 --microbatches 8", 2, "--stages: 0 must be 1 or more");
  expect_refused("--schedule 1f1b --stages 4 --microbatches x", 2, "'x' is not a whole number");
  expect_refused("--schedule 1f1b --stages 1000000 --microbatches 1000000", 2, "GiB are available");
  expect_refused("--schedule 1f1b --stages 999999999 --microbatches 999999999", 2, "available");
  expect_refused(good + " --forward 1", 2, "has no unit");
  expect_refused(good + " --forward=-1ms", 2, "is negative");
  expect_refused(good + " --forward nan", 2, "is not a number");
  expect_refused(good + " --forward 1e99s", 2, "too large");
  expect_refused(good + " --forward 1ms,2ms", 2, "2 values for 4 virtual stages");
  expect_refused(good + " --forward 9999999s", 2, "too large");
  expect_refused("--schedule 1f1b --stages 100 --microbatches 100000 --forward 900000s", 2,
                 "64 bits");
  expect_refused(good + " --backward 1ms --backward-input 1ms", 2, "exclude each other");
  expect_refused(good + " --costs missing.json", 2, "cannot read 'missing.json'");
  expect_refused(good + " --costs missing.json --forward 1ms", 2, "both give costs");
  expect_refused(good + " --layout 1,1,1,1", 2, "--layout: needs costs by layer");
  expect_refused(good + " --virtual-stages 2", 2, "1f1b has one chunk per rank");
  expect_refused(good + " --group 2", 2, "only interleaved has groups");
  expect_refused(good + " --p2p fofi", 2, "unknown p2p mode 'fofi'; known, nearest first: fifo");
  expect_refused(good + " --eager-limit 3", 2, "--eager-limit: '3' has no unit");
  expect_refused(good + " --compute-slowdown 0.1", 2, "--compute-slowdown: '0.1' has no unit");
  expect_refused(good + " --compute-slowdown 20000%", 2, "is too large");
  expect_refused(good + " --memory-cap 80", 2, "has no unit");
  expect_refused(good + " --trace /no/such/folder/t.json", 2, "No such file or directory");
  expect_refused(good + " --trace /dev/full", 1, "No space left");
  expect_refused(good + " --export x.csv.gz", 2, "omit .gz");
  expect_refused(good + " --trace x --export x", 2, "same file");
  expect_refused(good + " --iterations 0", 2, "--iterations: 0 must be 1 or more");
  expect_refused(good + " --iterations 2.5", 2, "--iterations: '2.5' is not a whole number");
  expect_refused(good + " --iterations 999999999", 2,
                 "8 microbatches x 999,999,999 iterations, 6.4e+10 actions: needs about");
  expect_refused(good + " --forward 900000s --iterations 999999999", 2, "available");
  expect_refused(
      "--schedule 1f1b --stages 1 --microbatches 1000 --forward 900000s --iterations "
      "100000",
      2, "fewer iterations");
}

TEST(Predict, RefusesADeadlockWithItsCycle) {
  const std::string ragged = "--schedule interleaved --stages 8 --virtual-stages 2";
  expect_refused(ragged + " --microbatches 12", 2, "waits for");
  expect_refused(ragged + " --microbatches 12", 2,
                 "; what runs: --group 12, or --microbatches 8, or --microbatches 16\n");
  EXPECT_EQ(call(ragged + " --microbatches 12 --group 12").status, 0);
  expect_refused(ragged + " --microbatches 20 --iterations 2", 2, "; what runs: --group 10, or ");
  EXPECT_EQ(call(ragged + " --microbatches 20 --group 10").status, 0);
  expect_refused("--schedule interleaved --stages 4 --microbatches 8 --placement v", 2,
                 "; what runs: --placement loop\n");
  expect_refused("--schedule interleaved-pytorch --stages 4 --microbatches 9", 2, "equal size");
}

TEST(Predict, PlacesVShapesOnAV) {
  const Json json = json_of("--schedule ZBVZeroBubble --stages 4 --microbatches 8");
  EXPECT_EQ(json["schedule"], "zb-v") << "whatever it was asked for by";
  EXPECT_EQ(json["virtual_stages"], 2);
  EXPECT_EQ(json["bubble_fraction"]["span"], 0.0);
  EXPECT_EQ(json["bubble_fraction"]["closed_form"],
            Json::parse(R"({"metric": "span", "fraction": 0.0})"));
  EXPECT_EQ(json["peak_activation_chunks"], 8);
  EXPECT_EQ(
      json_of("--schedule zb-v --stages 2 --microbatches 4 --placement 1,0,0,1")["makespan_ns"],
      json_of("--schedule zb-v --stages 2 --microbatches 4 --placement v")["makespan_ns"]);
  const std::string v = "--schedule zb-v --stages 4 --microbatches 8";
  expect_refused(v + " --placement loop", 2, "omit --placement");
  expect_refused(v + " --virtual-stages 3", 2, "zb-v has two chunks per rank");
  expect_refused("--schedule dualpipe-v --stages 4 --microbatches 7", 2, "use 8, or zb-v");
  EXPECT_EQ(call("--schedule dualpipe-v --stages 4 --microbatches 8").status, 0);
}

// A cell of a forward and a backward takes what both do, unless it is said otherwise.
TEST(Predict, OverlappedCellsMayHaveATimeOfTheirOwn) {
  const std::string line = "--schedule dualpipe-v --stages 4 --microbatches 10";
  const Json summed = json_of(line);
  EXPECT_EQ(summed["makespan_ns"], 33'000'000);
  EXPECT_EQ(json_of(line + " --overlapped 1.5ms")["makespan_ns"], summed["makespan_ns"]);
  const Json shorter = json_of(line + " --overlapped 1ms");
  EXPECT_LT(shorter["makespan_ns"], summed["makespan_ns"]);
  EXPECT_EQ(shorter["bubble_fraction"]["closed_form"], nullptr);
  EXPECT_EQ(json_of(line + " --overlapped 1ms,1ms,1ms,1ms,1ms,1ms,1ms,1ms"), shorter);
  EXPECT_EQ(json_of("--schedule 1f1b --stages 2 --microbatches 3 --overlapped 9ms"),
            json_of("--schedule 1f1b --stages 2 --microbatches 3"));
  expect_refused(line + " --overlapped 2ms,1ms", 2, "--overlapped: 2 values");
  expect_refused(line + " --overlapped 2ms --costs c.json", 2, "--overlapped and --costs");
}

// Times that nobody gave are of a rank, whatever the schedule: a chunk takes its part, the last the
// rest. Times that are given are of a chunk.
TEST(Predict, UsualTimesAreThoseOfARank) {
  const auto chunks_of = [](const std::string& schedule, const std::string& parts) {
    const std::string line = "--schedule " + schedule + " --stages 2 --microbatches 6";
    EXPECT_EQ(json_of(line)["makespan_ns"], json_of(line + parts)["makespan_ns"]) << schedule;
    const std::string text = unwrapped(output_of(line));
    EXPECT_NE(text.find("A rank takes 1.00 ms forward and 2.00 ms backward per microbatch"),
              std::string::npos)
        << text;
  };
  const std::string third = "333333ns,333333ns,333333ns,333333ns,333334ns,333334ns";
  chunks_of("interleaved --virtual-stages 3",
            " --forward " + third + " --backward-input " + third + " --backward-weight " + third);
  chunks_of("zb-v", " --forward 500us --backward 1ms");
  EXPECT_LT(json_of("--schedule interleaved --stages 4 --microbatches 8")["makespan_ns"],
            json_of("--schedule 1f1b --stages 4 --microbatches 8")["makespan_ns"]);
  // The two copies of DualPipe are no chunks.
  EXPECT_EQ(
      json_of("--schedule dualpipe --stages 4 --microbatches 8"),
      json_of("--schedule dualpipe --stages 4 --microbatches 8 --forward 1ms --backward 2ms"));
  EXPECT_NE(output_of("--schedule interleaved --stages 2 --microbatches 4 --forward 1ms")
                .find("A rank takes 2.00 ms forward and 4.00 ms backward"),
            std::string::npos);
}

// No other schedule was tried against a file's, which is no proof that none is better.
TEST(Predict, SaysThatAFilesOrderWasTakenAsGiven) {
  const std::string file = testing::source_file("examples/two_chunks_v.csv");
  const std::string report = testing::pipesim({"--schedule", file}).out;
  EXPECT_NE(report.find("was taken as given"), std::string::npos) << report;
  EXPECT_EQ(report.find("Limited by its own work"), std::string::npos) << report;
  EXPECT_NE(report.find("pipesim schedules --compare"), std::string::npos) << report;
  EXPECT_EQ(testing::pipesim({"schedules", "--compare", file}).status, 0);
}

TEST(Predict, WarmsUpOnceMoreForExperts) {
  const std::string line = "--schedule interleaved --stages 4 --microbatches 8";
  const Json plain = json_of(line);
  const Json more = json_of(line + " --overlap-experts");
  EXPECT_EQ(more["peak_activation_chunks"], plain["peak_activation_chunks"].get<int>() + 1);
  EXPECT_EQ(more["makespan_ns"], plain["makespan_ns"]);
  expect_refused("--schedule 1f1b --stages 4 --microbatches 8 --overlap-experts", 2,
                 "only interleaved");
  expect_refused("--schedule " + golden("dualpipev_4rank_10mb.csv") + " --overlap-experts", 2,
                 "--overlap-experts: a file has its own");
}

TEST(Predict, ChecksWhatAFileAndTheFlagsSay) {
  const std::string file = "--schedule " + golden("dualpipev_4rank_10mb.csv");
  EXPECT_EQ(json_of(file + " --stages 4 --microbatches 10 --virtual-stages 2")["stages"], 4);
  expect_refused(file + " --stages 5", 2, "--stages 5:");
  expect_refused(file + " --microbatches 9", 2, "has 10");
  expect_refused(file + " --virtual-stages 1", 2, "has 2");
  expect_refused(file + " --group 2", 2, "--group");
}

TEST(Predict, LeavesNothingBehindWhenItFails) {
  const testing::TemporaryFolder folder;
  const std::string trace = folder / "t.json";
  EXPECT_EQ(call("--schedule interleaved --stages 8 --microbatches 12 --trace " + trace).status, 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// The same command line in a shell, which can redirect and limit.
TEST(Predict, FlagsBeforeASubcommandAreNotLost) {
  expect_refused("--forward 1ms schedules", 2, "--forward comes before schedules");
  expect_refused("schedules --forward 1ms", 2, "--forward belongs to --compare");
  expect_refused("schedules --compare --stages 200000000 --microbatches 1000000", 2,
                 "GiB are available");
  expect_refused("--schedule 1f1b --stages 4 --microbatches 8 --json=false", 2, "json");
  expect_refused("--schedule 1f1b --stages 4 --stages 5 --microbatches 8", 2, "--stages");
}

TEST(Predict, SaysWhyThereIsNoClosedForm) {
  const auto reason = [](const std::string& line) {
    const std::string out = call("--stages 4 --microbatches 8 " + line, {"COLUMNS=200"}).out;
    const std::size_t at = out.find("but not here: ");
    return at == std::string::npos ? out : out.substr(at + 14, out.find('\n', at) - at - 14);
  };
  EXPECT_EQ(reason("--schedule zb-h1 --forward 0 --backward 0"), "nothing takes time");
  EXPECT_EQ(reason("--schedule 1f1b --forward 1ms,2ms,1ms,1ms"), "stages differ");
  EXPECT_EQ(reason("--schedule zb-h1 --p2p-latency 1us"), "it needs m >= p, W <= F, no latency");
  EXPECT_EQ(reason("--schedule bfs --placement v"), "stages are not on a loop of ranks");
}

// What each would gain, the largest first, and the commands that try it.
TEST(Predict, SaysWhatLimitsIt) {
  const auto limits = [](const std::string& line) {
    const std::string out = call(line).out;
    const std::size_t at = out.find("Limited by");
    return at == std::string::npos ? out : out.substr(at);
  };
  // The first limit, its gain and its part of the iteration.
  const auto first = [&](const std::string& line) {
    const std::string text = limits(line);
    const std::size_t begin = text.find_first_not_of(' ', text.find('\n') + 1);
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  const std::string small = "--schedule 1f1b --stages 4 --microbatches 8";
  EXPECT_EQ(first(small),
            "9000.00  27.3 %  filling and draining the pipeline; more microbatches help");
  const std::string uneven = small + " --forward 1ms,1ms,2ms,1ms --backward 2ms,2ms,4ms,2ms";
  EXPECT_NE(
      limits(uneven).find("13.750  25.0 %  uneven stages: stage 2 takes 6.00 ms per microbatch,"),
      std::string::npos);
  // Two chunks a rank deal out the long stage to two ranks.
  EXPECT_EQ(first(uneven),
            "17.500  31.8 %  the schedule: interleaved-zb (2 chunks per rank) is faster");
  const std::string late = limits(small +
                                  " --activation-bytes 1GB --memory-cap 4GB "
                                  "--p2p-latency 1ms");
  EXPECT_NE(late.find("16.000  32.7 %  transfers that ranks wait for or that slow them down\n"),
            std::string::npos)
      << late;
  EXPECT_NE(late.find("memory: zb-h2 is faster with 1.8 times the memory, 6.5 GiB,\n"),
            std::string::npos)
      << late;
  EXPECT_EQ(limits("--schedule 1f1b --stages 1 --microbatches 8"),
            "Limited by its own work: removing anything else gains less than 0.5 %.\n");
  // Numbers as large as they may be.
  const std::string largest = limits(
      "--schedule naive --stages 1000 --microbatches 2 --forward 1000000s --backward 1000000s");
  for (std::size_t at = 0; (at = largest.find(" -", at)) != std::string::npos; ++at) {
    EXPECT_EQ(largest[at + 2], '-') << largest;
  }
}

TEST(Predict, NotesCommonMistakes) {
  const std::string few = "--schedule 1f1b --stages 8 --microbatches 4";
  const Json notes = json_of(few).at("notes");
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0]["key"], "few-microbatches");
  EXPECT_EQ(notes[0]["gain_ns"], 10'500'000);  // 33 ms, for half of what 8 do in 45 ms
  EXPECT_EQ(notes[0]["lesson"], "Fewer microbatches than stages");
  for (const int width : {80, 200}) {
    const std::string out = output_of(few, {"COLUMNS=" + std::to_string(width)});
    EXPECT_NE(unwrapped(out).find("Notes " + notes[0]["text"].get<std::string>() +
                                  " See sim/LESSONS.md: Fewer microbatches than stages."),
              std::string::npos)
        << out;
  }
  const std::string enough = "--schedule 1f1b --stages 8 --microbatches 8";
  EXPECT_EQ(json_of(enough).at("notes"), Json::array());
  EXPECT_EQ(output_of(enough).find("Notes"), std::string::npos);
}

TEST(Predict, AdvisesCommandsThatRun) {
  int run = 0;
  for (const char* const line :
       {"--schedule 1f1b --stages 4 --microbatches 8 --forward 1ms,1ms,2ms,1ms",
        "--schedule=interleaved --stages=4 --microbatches=8 --virtual-stages=2 --group 4 "
        "--p2p-latency 1ms",
        "--model gpt3-13b --cluster dgx-a100 --stages 4 --microbatches 16 --schedule 1f1b "
        "--tensor-parallel 8"}) {
    for (const std::string& command : testing::advised_commands(call(line).out)) {
      const std::string longer = command.starts_with("partition")   ? " --trials 5"
                                 : command.starts_with("schedules") ? ""
                                                                    : " --quiet";
      const Outcome outcome = call(command + longer);
      EXPECT_EQ(outcome.status, 0) << outcome.err;
      ++run;
    }
  }
  EXPECT_GE(run, 6);
}

TEST(Schedules, AreListed) {
  const Outcome list = call("schedules");
  EXPECT_EQ(list.status, 0);
  for (const Family& family : all_families()) {
    EXPECT_NE(list.out.find(std::string(family.name) + " "), std::string::npos);
  }
  EXPECT_EQ(json_of("schedules")["schedules"].size(), all_families().size());
  expect_refused("schedules --stages 4", 2, "--compare");
}

TEST(Schedule, PrintsChecksLowersConverts) {
  EXPECT_EQ(call("schedule print 1f1b --stages 2 --microbatches 2").out,
            "   0  0F0 0F1 0B0 0B1\n"
            "   1  1F0 1B0 1F1 1B1\n");
  EXPECT_EQ(call("schedule convert zb-h1 --stages 2 --microbatches 1").out,
            "0F0,0I0,0W0\r\n1F0,1I0,1W0\r\n");
  EXPECT_EQ(call("schedule convert zb-h1 --stages 2 --microbatches 1 --merge-backward").out,
            "0F0,0B0\r\n1F0,1B0\r\n");
  EXPECT_EQ(call("schedule lower 1f1b --stages 2 --microbatches 1").out,
            "0F0,0SEND_F0,0RECV_B0,0B0\r\n1RECV_F0,1F0,1B0,1SEND_B0\r\n");
  const Outcome good = call("schedule check zb-h2 --stages 4 --microbatches 8");
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(json_of("schedule check " + golden("zb1p_2rank_2stagep_comms.csv"))["unit_steps"], 113);
  const std::string negative = golden("recv_before_consumer_deadlocks.csv");
  const Outcome bad = call("schedule check " + negative);
  EXPECT_EQ(bad.status, 1);
  EXPECT_NE(bad.out.find("edge-fifo   runs"), std::string::npos) << bad.out;
  EXPECT_NE(bad.out.find("rendezvous  deadlock: 0SEND_F1"), std::string::npos) << bad.out;
  EXPECT_EQ(bad.out.find("unit steps"), std::string::npos) << bad.out;
  // What deadlocks whatever carries its results is said once.
  const testing::TemporaryFolder folder;
  write_file(folder / "stuck.csv", "0F0,0B0,0F1,0B1\n1F1,1F0,1B1,1B0\n");
  const Outcome stuck =
      testing::pipesim({"schedule", "check", folder / "stuck.csv"}, {"COLUMNS=80"});
  EXPECT_EQ(stuck.status, 1);
  EXPECT_NE(stuck.out.find("buffered, rendezvous, fifo, edge-fifo\n            deadlock: 0B0"),
            std::string::npos)
      << stuck.out;
  EXPECT_EQ(stuck.out.find("deadlock: 0B0"), stuck.out.rfind("deadlock: 0B0")) << stuck.out;
  EXPECT_EQ(call("schedule check --transport edge-fifo " + negative).status, 0);
  EXPECT_EQ(call("schedule check --transport fifo " + negative).status, 1);
  expect_refused("schedule check --transport smoke " + negative, 2, "unknown transport 'smoke'");
  expect_refused("schedule", 2, "subcommand");
  expect_refused("schedule lower " + golden("zb1p_2rank_2stagep_comms.csv"), 2, "already has SEND");
}

}  // namespace
}  // namespace pipesim
