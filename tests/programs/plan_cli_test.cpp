// `pipesim plan`, as a user calls it.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

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

// How many of the best are faster than one that stands among them.
TEST(PlanCommand, RanksALayout) {
  const Json json = json_of(planned);
  const Json& third = json["top"][2];
  std::string command = third["command"].get<std::string>();
  command = command.substr(0, command.find(" --layout"));
  std::vector<std::string> line = words(planned);
  line.insert(line.end(), {"--json", "--why", command.substr(command.find("--schedule"))});
  const Outcome outcome = pipesim(line);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json certificate = Json::parse(outcome.out);
  EXPECT_EQ(certificate["ends_as"], "evaluated");
  EXPECT_EQ(certificate["iteration_ns"], third["even_iteration_ns"]);
  const auto faster = std::ranges::count_if(json["top"], [&](const Json& one) {
    return one["even_iteration_ns"] < third["even_iteration_ns"];
  });
  EXPECT_EQ(certificate["faster_splits"], faster);
  EXPECT_LE(certificate["least_ns"], certificate["iteration_ns"]);
  const auto by_even = [](const Json& a, const Json& b) {
    return a["even_iteration_ns"] < b["even_iteration_ns"];
  };
  EXPECT_EQ(certificate["best"]["iteration_ns"],
            (*std::ranges::min_element(json["top"], by_even))["even_iteration_ns"]);
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
  EXPECT_TRUE(
      output_of("plan " + question + " --fix stages=4 --fix tensor-parallel=2").starts_with(text));
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
            "give --devices and --global-batch, to find the best layout\n");
  EXPECT_EQ(refusal("plan --model gpt2-large --cluster dgx-a100 --devices 8"),
            "pipesim: --global-batch is missing: sequences per iteration\n");
  EXPECT_EQ(refusal(planned + " --fix zero=0,1"),
            "pipesim: --fix zero=0,1: several values; give --only for these\n");
  EXPECT_EQ(refusal(planned + " --objective cost"),
            "pipesim: --objective: 'cost' is none; give time, memory or devices\n");
  EXPECT_EQ(refusal("plan --model gpt2-large --cluster dgx-a100 --global-batch 8 --devices 8..4"),
            "pipesim: --devices 8..4: ends before it begins; give 4..8\n");
  EXPECT_EQ(refusal("plan --model gpt2-large --cluster dgx-a100 --global-batch 8 --devices 4,8 "
                    "--why x"),
            "pipesim: --why: for how many devices? give --devices one number\n");
  EXPECT_EQ(refusal(planned + " --only zero=7"),
            "pipesim: --only zero: there is no '7' here; known: 0, 1, 2, 3\n");
  EXPECT_EQ(refusal(question + " --data-parallel 4"),
            "pipesim: --data-parallel: follows from --devices when searching for a layout; "
            "omit it, or give --schedule\n");
}

// A refusal's last words name what to change; with that it works.
std::string changed(const Outcome& refused, const std::string& flag) {
  const std::size_t at = refused.err.rfind(flag + " ");
  EXPECT_NE(at, std::string::npos) << refused.err;
  const std::size_t begin = at + flag.size() + 1;
  return refused.err.substr(begin, refused.err.find_first_of(", \n", begin) - begin);
}

TEST(PlanCommand, SaysWhatMakesThemAllImpossible) {
  const std::string seven = "plan --model gpt2-large --cluster dgx-a100 --only stages=1";
  const Outcome refused = call(seven + " --devices 7 --global-batch 5");
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.err.find("unless replicas x micro-batch divides the global batch"),
            std::string::npos);
  const std::string devices = changed(refused, "--devices");
  const std::string batch = changed(refused, "--global-batch");
  EXPECT_EQ(devices, "5");
  EXPECT_EQ(batch, "7");
  EXPECT_EQ(call(seven + " --global-batch 5 --devices " + devices).status, 0);
  EXPECT_EQ(call(seven + " --devices 7 --global-batch " + batch).status, 0);
}

TEST(PlanCommand, SaysHowMuchMemoryWouldDo) {
  const Outcome refused = call(planned + " --memory-cap 100MB");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("need more memory"), std::string::npos);
  const std::string cap = changed(refused, "--memory-cap");
  EXPECT_EQ(call(planned + " --memory-cap " + cap).status, 0);
  const std::int64_t mebibytes = std::stoll(cap);
  const std::string less = std::to_string(mebibytes - 1) + "MiB";
  EXPECT_EQ(call(planned + " --memory-cap " + less).status, 2);
  const Json smallest = json_of(planned + " --objective memory --memory-cap " + cap)["best"];
  EXPECT_GT(smallest["peak_memory_bytes"], (mebibytes - 1) << 20);
}

TEST(PlanCommand, ComparesNumbersOfDevices) {
  const std::string line =
      "plan --model gpt2-xl --cluster dgx-a100 --global-batch 64 --memory-cap 20GB "
      "--only schedule=1f1b --only zero=0 --devices ";
  const Json range = json_of(line + "4..24");
  std::vector<int> devices;
  for (const Json& one : range["by_devices"]) devices.push_back(one["devices"]);
  EXPECT_EQ(devices, (std::vector{4, 8, 16, 24}));
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t space = 0;
  int fewest = 0;
  for (const Json& one : range["by_devices"]) {
    const std::string own = line + std::to_string(one["devices"].get<int>());
    if (one["command"].is_null()) {
      EXPECT_EQ(call(own).status, 2);
      continue;
    }
    const Json alone = json_of(own);
    EXPECT_EQ(alone["best"]["iteration_ns"], one["iteration_ns"]);
    space += alone["space"].get<std::int64_t>();
    least = std::min(least, one["iteration_ns"].get<std::int64_t>());
    if (fewest == 0) fewest = one["devices"];
    const Json predicted = json_of(one["command"].get<std::string>().substr(8));
    EXPECT_EQ(predicted["makespan_ns"], one["iteration_ns"]);
  }
  EXPECT_EQ(range["best"]["iteration_ns"], least);
  EXPECT_GE(range["space"], space);
  const Json small = json_of(line + "24,8,4,16 --objective devices");
  EXPECT_EQ(small["devices"], fewest);
  EXPECT_EQ(small["by_devices"], range["by_devices"]);
}

TEST(PlanCommand, SplitsLayersOfTheBest) {
  // 48 blocks don't go evenly into 7 stages.
  const Json json = json_of(
      "plan --model gpt2-xl --cluster dgx-a100 --devices 7 --global-batch 12 --only schedule=1f1b "
      "--top 3");
  const Json& best = json["best"];
  EXPECT_NE(best["command"].get<std::string>().find(" --layout "), std::string::npos);
  EXPECT_LT(best["iteration_ns"], best["even_iteration_ns"]);
  const Json predicted = json_of(best["command"].get<std::string>().substr(8));
  EXPECT_EQ(predicted["makespan_ns"], best["iteration_ns"]);
}

}  // namespace
}  // namespace pipesim
