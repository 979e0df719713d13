// `pipesim fit`, as a user gives it.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"

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
  refuse(header + good + good, "runs.csv: has 2 runs, which tell too little; measure 3 or more");
  refuse("model,stages,secs\n", "runs.csv:1:3: unknown column 'secs'; known, nearest first: sec");
  refuse("model,stages,microbatches\n", "runs.csv:1: there is no column seconds; add it");
  refuse("model,seconds,model\n", "runs.csv:1:3: column model is there twice");
  refuse(header + good + "gpt2-xl,1,8,1,1.5\n", "runs.csv:3: 5 cells for 6 columns");
  refuse(header + good + good + "gpt2-xl,1,8,1,1,\n", "runs.csv:4: seconds: is empty");
  refuse(header + good + good + "gpt2-xl,1,8,1,1,0\n", "runs.csv:4: seconds: '0' is no number");
  refuse(header + good + good + "gpt2-xl,1,8,16,1,1\n", "runs.csv:4: ");
  refuse(header + good + good + "gpt2-xxl,1,8,1,1,1\n", "runs.csv:4: ");
  refuse(header + good + good + "\"gpt2-xl,1,8,1,1,1\n", "runs.csv:4:1: a quote is not closed");
  write_file(runs, header + good + good + good);
  expect_refused("fit " + runs, 2, "--cluster is missing");
  expect_refused("fit " + runs + " --cluster mine.json", 2, "a fit starts from a preset");
  expect_refused("fit " + runs + " --cluster dgx-a100 -o " + runs, 2, "name the same file");
}

}  // namespace
}  // namespace pipesim
