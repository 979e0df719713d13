// `pipesim fit`, as a user gives it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using namespace testing;

const std::string header = "model,stages,microbatches,tensor_parallel,micro_batch_size,seconds\n";

// What the flags of a row predict on the preset, times a factor, in seconds.
std::string seconds_of(const std::string& flags, double factor) {
  const Json json = json_of("--schedule 1f1b --model gpt2-medium --cluster dgx-a100 " + flags);
  return std::to_string(json["makespan_ns"].get<double>() * factor / 1e9);
}

// Of a machine that takes a quarter longer for everything.
std::string slow_runs() {
  std::string text = header;
  for (const auto& [stages, microbatches, tensor, batch] :
       {std::tuple(1, 8, 1, 4), {1, 4, 1, 8}, {2, 8, 1, 4}, {4, 8, 2, 8}}) {
    const std::string flags = "--stages " + std::to_string(stages) + " --microbatches " +
                              std::to_string(microbatches) + " --tensor-parallel " +
                              std::to_string(tensor) + " --micro-batch-size " +
                              std::to_string(batch);
    text += "gpt2-medium," + std::to_string(stages) + "," + std::to_string(microbatches) + "," +
            std::to_string(tensor) + "," + std::to_string(batch) + "," + seconds_of(flags, 1.25) +
            "\n";
  }
  return text;
}

TEST(FitCommand, WritesAClusterThatPredictsWhatItSays) {
  const TemporaryFolder folder;
  const std::string runs = folder / "runs.csv";
  const std::string mine = folder / "mine.json";
  write_file(runs, slow_runs());
  const std::string line = "fit " + runs + " --cluster dgx-a100 -o " + mine;
  const Json json = json_of(line);
  const std::string file = read_file(mine);
  EXPECT_EQ(json["format"], "pipesim-fit");
  EXPECT_EQ(json["software"], "megatron-2022");
  ASSERT_EQ(json["runs"].size(), 4U);
  EXPECT_NEAR(json["errors"]["before"]["mean"].get<double>(), 0.2, 1e-4);
  EXPECT_LT(json["errors"]["after"]["mean"], 0.03);
  for (const Json& run : json["runs"]) {
    const Json predicted = json_of(run["flags"].get<std::string>() + " --cluster " + mine);
    EXPECT_EQ(predicted["makespan_ns"], run["after_ns"]);
    const Json before = json_of(run["flags"].get<std::string>() + " --cluster dgx-a100");
    EXPECT_EQ(before["makespan_ns"], run["before_ns"]);
  }
  for (const Json& one : json["constants"]) {
    if (one["told"] == true) {
      EXPECT_LT(one["factor_p2_5"], one["factor"]);
      EXPECT_LT(one["factor"], one["factor_p97_5"]);
    } else {
      EXPECT_EQ(one["factor"], 1);
    }
    if (one["name"] == "network") {
      EXPECT_EQ(one["told"], false);
      EXPECT_EQ(one["needed"], false);
    }
  }
  const Outcome next = run_command(
      {"/bin/sh", "-c", PIPESIM_COMMAND + json["next"]["command"].get<std::string>().substr(7)});
  EXPECT_EQ(next.status, 0) << next.err;
  // The same again, byte for byte, and in words.
  EXPECT_EQ(json_of(line), json);
  EXPECT_EQ(read_file(mine), file);
  const std::string report = output_of(line, {"COLUMNS=80"});
  EXPECT_NE(report.find("Cluster: " + mine), std::string::npos);
  EXPECT_NE(report.find("kept: no run depends on it"), std::string::npos);
  const std::vector<std::string> advised = advised_commands(report);
  ASSERT_EQ(advised.size(), 1U);
  output_of(advised[0]);
}

TEST(FitCommand, TakesPathsFromTheFolderOfItsRuns) {
  const TemporaryFolder folder;
  write_file(folder / "own.json", output_of("models gpt2-small"));
  write_file(
      folder / "runs.csv",
      "\xef\xbb\xbfmodel,stages,global_batch,peak_gib,seconds\r\n\r\nown.json,1,8,3.5,0.5\r\n"
      "\"own.json\",2,8,,0.3\r\n own.json ,4,8,2,0.2\r\n");
  const Json json = json_of("fit " + (folder / "runs.csv") + " --cluster dgx-a100");
  ASSERT_EQ(json["runs"].size(), 3U);
  EXPECT_EQ(json["runs"][0]["line"], 3);
  EXPECT_EQ(json["runs"][0]["peak_bytes"], 3'758'096'384);
  EXPECT_EQ(json["runs"][1]["peak_bytes"], nullptr);
  EXPECT_NE(unwrapped(output_of("fit " + (folder / "runs.csv") + " --cluster dgx-a100"))
                .find("memory is not fitted"),
            std::string::npos);
}

TEST(FitCommand, RefusesWhatCannotBe) {
  const TemporaryFolder folder;
  const std::string runs = folder / "runs.csv";
  const std::string mine = folder / "mine.json";
  const auto refuse = [&](const std::string& text, const std::string& part) {
    write_file(runs, text);
    expect_refused("fit " + runs + " --cluster dgx-a100 -o " + mine, 2, part);
    EXPECT_FALSE(std::filesystem::exists(mine)) << part;
  };
  const std::string good = "gpt2-xl,1,8,1,1,1.5\n";
  refuse("", "runs.csv: is empty");
  refuse(header + good + good, "runs.csv: has 2 runs, which is too little; measure 3 or more");
  refuse("model,stages,secs\n", "runs.csv:1:3: unknown column 'secs'; known, nearest first: sec");
  refuse("model,stages,microbatches\n",
         "runs.csv:1: there is no column seconds, and none of traces; add one");
  refuse("stages,seconds\n", "runs.csv:1: there is no column model; add it");
  refuse("model,seconds,model\n", "runs.csv:1:3: column model is given twice");
  refuse(header + good + "gpt2-xl,1,8,1,1.5\n", "runs.csv:3: 5 cells for 6 columns");
  refuse(header + good + good + "gpt2-xl,1,8,1,1,\n", "runs.csv:4: seconds: is empty");
  refuse(header + good + good + "gpt2-xl,1,8,1,1,0\n", "runs.csv:4: seconds: '0' is not a number");
  refuse(header + good + good + "gpt2-xl,1,8,16,1,1\n", "runs.csv:4: ");
  refuse(header + good + good + "gpt2-xxl,1,8,1,1,1\n", "runs.csv:4: ");
  refuse(header + good + good + "\"gpt2-xl,1,8,1,1,1\n", "runs.csv:4:1: a quote is not closed");
  write_file(runs, header + good + good + good);
  expect_refused("fit " + runs, 2, "--cluster is missing");
  expect_refused("fit " + runs + " --cluster " + (folder / "none.json"), 2, "none.json");
  expect_refused("fit " + runs + " --cluster dgx-a100 --software megatron", 2, "megatron-core");
  expect_refused("fit " + runs + " --cluster dgx-a100 -o " + runs, 2, "name the same file");
}

// Of four layouts: what predictions on a cluster of one's own say, peaks or traces included.
class OwnMachine {
 public:
  explicit OwnMachine(const TemporaryFolder& folder) : folder_(folder) {
    write_file(cluster(), R"({"format":"pipesim-cluster","version":1,"name":"own",)"
                          R"("base":"dgx-a100","device":{"software":{"efficiency":0.8,)"
                          R"("p2p_overhead":"3ms","activation_memory":1.25,"state_bytes":2,)"
                          R"("reserved_memory":"2GiB"}}})");
  }

  std::string cluster() const { return folder_ / "own.json"; }
  std::string header() const {
    return "model,stages,microbatches,tensor_parallel,micro_batch_size,seconds,peak_bytes,trace\n";
  }
  // `cells`: stages, microbatches, tensor-parallel ranks, size of a microbatch.
  std::string row(const std::string& cells, bool has_seconds, bool has_peak, bool has_trace) const {
    std::vector<std::string> numbers;
    for (const std::string_view one : split(cells, ',')) numbers.emplace_back(one);
    const std::string name = "run" + numbers[0] + numbers[1] + numbers[2] + numbers[3] + ".json.gz";
    const Json json = json_of("--schedule 1f1b --model gpt3-1.3b --stages " + numbers[0] +
                              " --microbatches " + numbers[1] + " --tensor-parallel " + numbers[2] +
                              " --micro-batch-size " + numbers[3] + " --cluster " + cluster() +
                              (has_trace ? " --trace " + (folder_ / name) : ""));
    const auto text_if = [](bool is_there, const std::string& text) {
      return is_there ? text : std::string();
    };
    const auto seconds = json["makespan_ns"].get<double>() / 1e9;
    return "gpt3-1.3b," + cells + "," + text_if(has_seconds, std::to_string(seconds)) + "," +
           text_if(has_peak, json["peak_memory_bytes"].dump()) + "," + text_if(has_trace, name) +
           "\n";
  }

 private:
  const TemporaryFolder& folder_;
};

const Json& constant_of(const Json& fit, const std::string& name) {
  for (const Json& one : fit["constants"]) {
    if (one["name"] == name) return one;
  }
  throw std::runtime_error("no constant " + name);
}

void expect_within(const Json& fit, const std::string& name, double truth) {
  const Json& one = constant_of(fit, name);
  EXPECT_TRUE(one["told"]) << name;
  EXPECT_LE(one["values"][0]["p2_5"].get<double>(), truth) << name;
  EXPECT_GE(one["values"][0]["p97_5"].get<double>(), truth) << name;
}

TEST(FitCommand, FitsPeaksOfMemory) {
  const TemporaryFolder folder;
  const OwnMachine machine(folder);
  std::string text = machine.header();
  for (const char* cells : {"1,8,1,1", "1,4,1,4", "2,8,1,4", "4,8,2,8", "1,4,8,16", "8,8,1,2"}) {
    text += machine.row(cells, true, true, false);
  }
  write_file(folder / "runs.csv", text);
  const std::string line =
      "fit " + (folder / "runs.csv") + " --cluster dgx-a100 -o " + (folder / "mine.json");
  const Json json = json_of(line);
  EXPECT_GT(json["memory_errors"]["before"]["mean"], 0.1);
  EXPECT_LT(json["memory_errors"]["after"]["mean"], 0.03);
  EXPECT_LT(json["memory_errors"]["by_others"]["mean"], 0.06);
  expect_within(json, "activation_memory", 1.25);
  const std::string file = read_file(folder / "mine.json");
  EXPECT_NE(file.find("6 peaks, 95 % interval"), std::string::npos);
  for (const Json& run : json["runs"]) {
    const std::string flags =
        run["flags"].get<std::string>() + " --cluster " + (folder / "mine.json");
    const Json predicted = json_of(flags);
    EXPECT_EQ(predicted["peak_memory_bytes"], run["predicted_peak_bytes"]);
  }
  const std::string report = output_of(line, {"COLUMNS=80"});
  EXPECT_NE(report.find("memory of the fullest rank"), std::string::npos);
  EXPECT_NE(unwrapped(report).find("; peaks of memory erred by"), std::string::npos);
  // A line of its own in what is explained.
  const std::string flags = json["runs"][2]["flags"].get<std::string>();
  const Json explained = json_of(flags + " --explain --cluster " + machine.cluster());
  std::int64_t sum = 0;
  for (const Json& rank : explained["explanation"]["ranks"]) {
    EXPECT_EQ(rank["memory_bytes"]["reserved"], std::int64_t{2} << 30);
    std::int64_t own = 0;
    for (const Json& bytes : rank["memory_bytes"]) own += bytes.get<std::int64_t>();
    sum = std::max(sum, own);
  }
  EXPECT_EQ(sum, explained["peak_memory_bytes"]);
  const std::string table = output_of(flags + " --explain --cluster " + machine.cluster());
  EXPECT_NE(table.find("\nreserved "), std::string::npos);
  EXPECT_NE(table.find("\nactivations x 1.25 "), std::string::npos);
}

TEST(FitCommand, TakesTimesFromTraces) {
  const TemporaryFolder folder;
  const OwnMachine machine(folder);
  const std::string first = machine.row("2,8,1,4", false, false, true);
  const std::string second = machine.row("4,8,2,8", false, false, true);
  write_file(folder / "runs.csv", machine.header() + first + second);
  const std::string line = "fit " + (folder / "runs.csv") + " --cluster dgx-a100";
  const Json json = json_of(line);
  expect_within(json, "efficiency", 0.8);
  EXPECT_LT(json["errors"]["after"]["worst"], 0.03);
  EXPECT_EQ(json["memory_errors"], nullptr);
  for (const Json& run : json["runs"]) {
    const Json truth = json_of(run["flags"].get<std::string>() + " --cluster " + machine.cluster());
    EXPECT_EQ(run["measured_ns"], truth["makespan_ns"]);
    // A trace gives back what costs said.
    const double backward = run["kinds_ns"]["measured"]["backward"].get<double>();
    EXPECT_NEAR(run["kinds_ns"]["after"]["backward"].get<double>() / backward, 1, 0.04);
    EXPECT_GT(run["kinds_ns"]["measured"]["messages"], 0);
  }
  const std::string report = output_of(line, {"COLUMNS=80"});
  EXPECT_NE(report.find("of traces"), std::string::npos);
  EXPECT_NE(unwrapped(report).find(".json.gz, a prediction, no measurement"), std::string::npos);
  // Its time is that of the row where there is one.
  write_file(folder / "runs.csv",
             machine.header() + machine.row("2,8,1,4", true, false, true) + second + first);
  EXPECT_EQ(json_of(line)["runs"].size(), 3U);
}

TEST(FitCommand, RefusesTracesThatAreNotOfTheRow) {
  const TemporaryFolder folder;
  const OwnMachine machine(folder);
  const std::string good = machine.row("2,8,1,4", false, false, true);
  const std::string trace = good.substr(good.rfind(',') + 1);
  const auto refuse = [&](const std::string& row, const std::string& part, int status = 2) {
    write_file(folder / "runs.csv", machine.header() + good + row);
    expect_refused("fit " + (folder / "runs.csv") + " --cluster dgx-a100", status, part);
  };
  refuse("gpt3-1.3b,4,8,1,4,,," + trace,
         "has 2 pipeline ranks, but the row has 4 pipeline ranks; give the trace of this run, or "
         "correct the row");
  refuse("gpt3-1.3b,2,16,1,4,,," + trace, "runs.csv:3: trace: ");
  refuse("gpt3-1.3b,2,16,1,4,,," + trace, "has 8 microbatches, but the row has 16 microbatches");
  refuse("gpt3-1.3b,2,8,1,4,,,none.json\n", "runs.csv:3: trace: cannot read");
  refuse("gpt3-1.3b,2,8,1,4,,,none.json\n", "; give what pipeexec or a profiler recorded of this");
  refuse("gpt3-1.3b,2,8,1,4,,,own.json\n", "own.json: not a Chrome trace");
  refuse("gpt3-1.3b,2,8,1,4,,,\n", "runs.csv:3: seconds: is empty; give an iteration's time, a");
  refuse("gpt3-1.3b,2,8,1,4,1.5,-3,\n", "runs.csv:3: peak_bytes: '-3' is not a number above 0");
  refuse("", "runs.csv: has 1 run, which is too little");
  const std::string columns =
      "model,schedule,stages,microbatches,micro_batch_size,sequence_length,precision,trace\n";
  const auto refuse_profile = [&](const std::string& row, const std::string& part) {
    write_file(folder / "runs.csv", columns + row);
    expect_refused("fit " + (folder / "runs.csv") + " --cluster dgx-a100", 2, part);
  };
  const std::string profile = folder / "profile";
  std::filesystem::create_directory(profile);
  for (const char* name : {"/1f1b.rank0.json.gz", "/1f1b.rank1.json.gz"}) {
    write_file(profile + name, read_file(source_file("traces/recorded") + name));
  }
  refuse_profile("gpt-mini,gpipe,2,4,1,64,fp32,profile\n",
                 "profile has another order of actions, but the row has gpipe");
  refuse_profile("gpt-mini,1f1b,2,8,1,64,fp32,profile\n", "has 4 microbatches, but the row has 8");
}

// What pipeexec recorded tells of which model, and in which shape.
TEST(FitCommand, TakesTracesOfPipeexec) {
  const TemporaryFolder folder;
  const Outcome recorded =
      run_command(words(PIPEEXEC_COMMAND +
                        std::string(" --schedule 1f1b --stages 2 --microbatches 4 "
                                    "--micro-batch-size 2 --sequence-length 8 "
                                    "--iterations 3 --trace ") +
                        (folder / "run.json")));
  ASSERT_EQ(recorded.status, 0) << recorded.err;
  const std::string columns =
      "model,stages,microbatches,micro_batch_size,sequence_length,precision,seconds,trace\n";
  const auto run = [&](const std::string& row) {
    write_file(folder / "runs.csv", columns + row + row + row);
    return "fit " + (folder / "runs.csv") + " --cluster dgx-a100";
  };
  const Json fitted = json_of(run("gpt-mini,2,4,2,8,fp32,,run.json\n"));
  const Json trace = Json::parse(read_file(folder / "run.json"));
  std::vector<std::int64_t> times = trace["metadata"]["pipesim"]["iteration_ns"];
  std::ranges::sort(times);
  EXPECT_EQ(fitted["runs"][0]["measured_ns"], times[1]);
  const Json timed = json_of(run("gpt-mini,2,4,2,8,fp32,0.5,run.json\n"));
  EXPECT_EQ(timed["runs"][0]["measured_ns"], 500'000'000);
  EXPECT_EQ(timed["runs"][0]["kinds_ns"]["measured"], fitted["runs"][0]["kinds_ns"]["measured"]);
  for (const auto& [row, part] :
       {std::pair("llama-mini,2,4,2,8,fp32,,run.json\n",
                  "has model gpt-mini, but the row has llama"),
        {"gpt-mini,2,4,4,8,fp32,,run.json\n", "has a micro-batch size of 2, but the row has 4"},
        {"gpt-mini,2,4,2,16,fp32,,run.json\n", "has sequences of 8 tokens, but the row has 16"},
        {"gpt-mini,2,4,2,8,bf16,,run.json\n", "has fp32, but the row has bf16"},
        {"gpt2-small,2,4,2,8,fp32,,run.json\n", "has layers split as 5,5, but the row has 7,7"}}) {
    expect_refused(run(row), 2, part);
  }
}

}  // namespace
}  // namespace pipesim
