// `pipesim plan`, as a user calls it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using namespace testing;

void expect_lines_within(const std::string& text, std::size_t most) {
  for (const std::string_view line : split(text, '\n')) EXPECT_LE(line.size(), most) << line;
}

const std::string question =
    "--model gpt2-large --cluster dgx-a100 --devices 32 --global-batch 64 --attention fused";
const std::string planned = "plan " + question + " --only schedule=1f1b,interleaved,zb-h1";

TEST(PlanCommand, CommandsGiveTheNumbersThatItPrints) {
  const Json json = json_of(planned);
  EXPECT_EQ(json["format"], "pipesim-plan");
  ASSERT_EQ(json["top"].size(), 10);
  EXPECT_EQ(json["top"][0]["command"], json["best"]["command"]);
  std::int64_t before = 0;
  for (const Json& one : json["top"]) {
    const auto command = one["command"].get<std::string>();
    ASSERT_TRUE(command.starts_with("pipesim ")) << command;
    const Json predicted = json_of(command.substr(8));
    EXPECT_EQ(predicted["makespan_ns"], one["iteration_ns"]) << command;
    EXPECT_EQ(predicted["peak_memory_bytes"], one["peak_memory_bytes"]) << command;
    EXPECT_EQ(predicted["fits"], true);
    EXPECT_GE(one["iteration_ns"], before);
    before = one["iteration_ns"].get<std::int64_t>();
  }
  std::int64_t sum = 0;
  for (const char* key : {"impossible", "too_large", "dominated", "evaluated", "not_reached"}) {
    sum += json[key].get<std::int64_t>();
  }
  EXPECT_EQ(sum, json["space"]);
  EXPECT_GT(json["error_band"]["fraction"], 0);
}

TEST(PlanCommand, IsTheSameWithAnyNumberOfThreads) {
  const std::string one = output_of(planned + " --threads 1");
  EXPECT_EQ(output_of(planned + " --threads 3"), one);
  expect_lines_within(one, 80);
}

TEST(PlanCommand, SaysWhatALayoutEndsAs) {
  const auto why = [](const std::string& layout, const std::string& cap = "80GiB") {
    std::vector<std::string> line = words(planned + " --memory-cap " + cap);
    line.push_back("--why");
    line.push_back(layout);
    const Outcome outcome = pipesim(line);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out.substr(outcome.out.find("\n\n") + 2);
  };
  EXPECT_EQ(why("--schedule 1f1b --stages 32 --tensor-parallel 2"),
            "Impossible: tensor x pipeline parallelism divides the devices.\n");
  EXPECT_EQ(why("--schedule 1f1b --stages 1 --micro-batch-size 2").substr(0, 9), "Dominated");
  EXPECT_EQ(why("--schedule 1f1b --stages 1", "1GiB").substr(0, 9), "Too large");
  const Json best = json_of(planned)["best"];
  const auto command = best["command"].get<std::string>();
  EXPECT_EQ(why(command.substr(command.find("--schedule"))).substr(0, 9), "Evaluated");
}

TEST(PlanCommand, NarrowsWhatMayBeChosen) {
  const Json json = json_of(planned + " --fix tensor-parallel=2 --only zero=0,1 --top 3");
  for (const Json& one : json["top"]) {
    EXPECT_NE(one["command"].get<std::string>().find("--tensor-parallel 2"), std::string::npos);
  }
  EXPECT_EQ(json["top"].size(), 3);
  const Json all = json_of(planned);
  EXPECT_LT(json["space"], all["space"]);
  EXPECT_GE(json["best"]["iteration_ns"], all["best"]["iteration_ns"]);
}

TEST(PlanCommand, WritesAllThatWasEvaluated) {
  const TemporaryFolder folder;
  const Json json = json_of(planned + " --csv " + (folder / "all.csv"));
  const std::string text = read_file(folder / "all.csv");
  EXPECT_EQ(std::ranges::count(text, '\n'), json["evaluated"].get<int>() + 1);
}

TEST(PlanCommand, StandsInForAScheduleThatIsMissing) {
  const std::string text = output_of(question + " --stages 4 --tensor-parallel 2");
  EXPECT_NE(text.find("--stages 4"), std::string::npos);
  EXPECT_NE(text.find("--tensor-parallel 2"), std::string::npos);
  expect_lines_within(text, 80);
}

TEST(PlanCommand, RefusesInOneSentence) {
  const auto refusal = [](const std::string& line) {
    const Outcome outcome = call(line);
    EXPECT_EQ(outcome.status, 2) << line;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_EQ(refusal("--model gpt2-large --cluster dgx-a100"),
            "pipesim: --schedule is missing: give a name (see `pipesim schedules`) or a file; or "
            "give --devices and --global-batch, to have the best layout found\n");
  EXPECT_EQ(refusal("plan --model gpt2-large --cluster dgx-a100 --devices 8"),
            "pipesim: --global-batch is missing: sequences of an iteration\n");
  EXPECT_EQ(refusal(planned + " --fix zero=0,1"),
            "pipesim: --fix zero=0,1: several values; give --only for these\n");
  EXPECT_EQ(refusal(planned + " --only zero=7"),
            "pipesim: --only zero: there is no '7' here; known: 0, 1, 2, 3\n");
  EXPECT_EQ(refusal(question + " --data-parallel 4"),
            "pipesim: --data-parallel: follows from --devices where a layout is to be found; leave "
            "it away, or give --schedule\n");
}

TEST(PlanCommand, SaysWhatMakesThemAllImpossible) {
  const std::string seven = output_of(
      "plan --model gpt2-large --cluster dgx-a100 --devices 7 --global-batch 5 "
      "--only stages=1");
  EXPECT_NE(seven.find("no layout fits"), std::string::npos);
  EXPECT_NE(seven.find("replicas x micro-batch divides the global batch"), std::string::npos);
  const std::string small = output_of(planned + " --memory-cap 100MB");
  EXPECT_NE(small.find("no layout fits"), std::string::npos);
  EXPECT_NE(small.find("more memory"), std::string::npos);
}

}  // namespace
}  // namespace pipesim
