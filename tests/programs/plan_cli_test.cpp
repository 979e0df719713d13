// `pipesim plan`, as a user calls it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
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
            "Impossible: tensor x context x pipeline parallelism divides the devices.\n");
  EXPECT_EQ(why("--schedule 1f1b --stages 1 --micro-batch-size 2").substr(0, 9), "Dominated");
  EXPECT_EQ(why("--schedule 1f1b --stages 1", "1GiB").substr(0, 9), "Too large");
  const Json best = json_of(planned)["best"];
  const auto command = best["command"].get<std::string>();
  EXPECT_EQ(why(command.substr(command.find("--schedule"))).substr(0, 9), "Evaluated");
  // Replicas are what is left of the devices.
  std::vector<std::string> other = words(planned);
  other.insert(other.end(), {"--why", "--schedule 1f1b --stages 2 --data-parallel 8"});
  EXPECT_EQ(pipesim(other).err,
            "pipesim: --why: --data-parallel 8 is not what is left of 32 devices: 16 replicas\n");
  // It says why, too: parts of the iteration that sum to what it is longer.
  const std::string slow = why("--schedule 1f1b --stages 8 --tensor-parallel 1");
  EXPECT_NE(slow.find("Next to the best, +"), std::string::npos) << slow;
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
            "pipesim: --objective: unknown 'cost'; give time, memory or devices\n");
  EXPECT_EQ(refusal("plan --model gpt2-large --cluster dgx-a100 --global-batch 8 --devices 8..4"),
            "pipesim: --devices 8..4: ends before it begins; give 4..8\n");
  EXPECT_EQ(refusal("plan --model gpt2-large --cluster dgx-a100 --global-batch 8 --devices 4,8 "
                    "--why x"),
            "pipesim: --why: for how many devices? give --devices one number\n");
  EXPECT_EQ(refusal(planned + " --only zero=7"),
            "pipesim: --only zero: '7' is not in the search space; known: 0, 1, 2, 3\n");
  EXPECT_EQ(refusal(planned + " --zero 7"),
            "pipesim: --zero: '7' is not in the search space; known: 0, 1, 2, 3\n");
  EXPECT_EQ(refusal("plan " + question + " --schedule mine.csv"),
            "pipesim: --schedule: 'mine.csv' is a file, whose stages and microbatches are given; a "
            "plan needs a name\n");
  EXPECT_EQ(refusal(planned + " --stages 2,4"),
            "pipesim: --stages 2,4: several values; give --only for these\n");
  EXPECT_EQ(refusal(planned + " --shard-over al"),
            "pipesim: --shard-over: 'al' is not in the search space; known: all, node\n");
  EXPECT_EQ(refusal(planned + " --shard-over 3"),
            "pipesim: --shard-over 3: plans shard over all replicas, or those of a node, which has "
            "8 devices; give all or node\n");
  EXPECT_EQ(refusal("plan " + question + " --virtual-stages 2 --only virtual-stages=5"),
            "pipesim: --only virtual-stages: '5' is not in the search space; known: 2\n");
  EXPECT_EQ(refusal(planned + " --fix dp=2 --only data-parallel=4,8"),
            "pipesim: --fix data-parallel: 2 was not among those asked for before\n");
  EXPECT_EQ(refusal("plan --model gpt2-large --cluster dgx-a100 --devices 8 --global-batch 1,024"),
            "pipesim: --global-batch: '1,024' is not a whole number; write it without commas\n");
}

// Whenever the time ends there is one sentence, or all that a plan says.
TEST(PlanCommand, EndsWithTheBestInItsBudget) {
  const std::string training = "plan --model gpt2-large --cluster dgx-a100 --budget ";
  for (const char* budget : {"0s", "1ms", "20ms", "40ms", "80ms", "160ms"}) {
    for (const char* asked :
         {"--devices 32 --global-batch 64 --json", "--devices 8,16,32 --global-batch 64 --json",
          "--devices 32 --global-batch 1000003 --json",
          "--devices 32 --global-batch 64 --json --why"}) {
      std::vector<std::string> line = words(training + budget + " " + asked);
      if (line.back() == "--why") line.emplace_back("--schedule 1f1b --stages 2");
      const Outcome outcome = pipesim::testing::pipesim(line);
      if (outcome.status == 1) {
        expect_one_sentence(outcome, "pipesim", fmt::format("{} {}", budget, asked), 1,
                            "--budget: time ");
        continue;
      }
      ASSERT_EQ(outcome.status, 0) << outcome.err;
      EXPECT_FALSE(Json::parse(outcome.out)["best"].empty() && line.back() == "--json");
    }
  }
}

// A limit on memory that has room for no other stack.
TEST(PlanCommand, GoesOnWithFewerThreads) {
#ifndef PIPESIM_SANITIZED  // which takes an address space of its own
  const auto run = [](const std::string& limits) {
    return run_command(
        {"/bin/sh", "-c",
         limits + " exec \"$0\" plan " + question + " --only schedule=1f1b,interleaved --threads 3",
         PIPESIM_COMMAND});
  };
  const Outcome free = run("");
  const Outcome alone = run("ulimit -s 2000000; ulimit -v 1500000;");
  ASSERT_EQ(free.status, 0) << free.err;
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(alone.out, free.out);
#endif
}

// Of a family alone all that runs is tried, without a pipeline, too.
TEST(PlanCommand, FindsTheBestOfEachFamilyWithoutAPipeline) {
  const std::string training = "--model gpt2-xl --cluster dgx-h100 --devices 4 --global-batch 8";
  for (const std::string schedule : {"zb-h2", "gpipe", "zb-v", "interleaved-pytorch"}) {
    const Json plan =
        json_of("plan " + training + " --only schedule=" + schedule +
                " --only mbs=2 --only recompute=selective --only zero=0 --only bucket-bytes=100MB");
    for (const int stages : {1, 2, 4}) {
      const std::string layout = fmt::format(
          "--schedule {} --stages {} --micro-batch-size 2 --recompute selective --bucket-bytes "
          "100MB",
          schedule, stages);
      const Outcome predicted = call(training + " " + layout + " --json");
      if (predicted.status != 0) continue;
      EXPECT_LE(plan["best"]["iteration_ns"], Json::parse(predicted.out)["makespan_ns"]) << layout;
      std::vector<std::string> line =
          words("plan " + training + " --json --only schedule=" + schedule);
      line.emplace_back("--why");
      line.push_back(layout);
      EXPECT_NE(Json::parse(pipesim::testing::pipesim(line).out)["ends_as"], "impossible")
          << layout;
    }
  }
}

// The fields of a layout are the flags of its command.
TEST(PlanCommand, GivesLayoutsAsFields) {
  const Json plan = json_of(planned + " --json");
  ASSERT_FALSE(plan["top"].empty());
  for (const Json& one : plan["top"]) {
    const Json& layout = one["layout"];
    const std::vector<std::string> command = words(one["command"].get<std::string>());
    const auto flag = [&](const std::string& name) -> std::string {
      const auto at = std::ranges::find(command, "--" + name);
      return at == command.end() || at + 1 == command.end() ? "" : at[1];
    };
    EXPECT_EQ(layout["schedule"], flag("schedule"));
    EXPECT_EQ(layout["stages"].dump(), flag("stages"));
    const int tensor = layout["tensor_parallel"];
    EXPECT_EQ(std::to_string(tensor), tensor == 1 ? "1" : flag("tensor-parallel"));
    EXPECT_EQ(layout["layers"].is_null(), flag("layout").empty());
    EXPECT_EQ(layout["micro_batch_size"].dump(),
              flag("micro-batch-size").empty() ? "1" : flag("micro-batch-size"));
    EXPECT_EQ(layout["zero"].dump(), flag("zero").empty() ? "0" : flag("zero"));
    EXPECT_EQ(layout["recompute"], flag("recompute").empty() ? "none" : flag("recompute"));
    EXPECT_EQ(layout["gather"].is_null(), flag("gather").empty());
    EXPECT_EQ(layout["shard_over"].is_null(), flag("shard-over").empty());
    EXPECT_EQ(layout["sequence_parallel"],
              std::ranges::find(command, "--sequence-parallel") != command.end());
    EXPECT_EQ(layout["overlap_gather"], flag("overlap-gather") == "on");
    EXPECT_EQ(layout["bucket_bytes"].is_null(),
              flag("bucket-bytes").empty() || flag("bucket-bytes") == "off");
    const Json predicted = json_of(one["command"].get<std::string>().substr(8));
    EXPECT_EQ(layout["data_parallel"], predicted["training"]["data_parallel"]);
    EXPECT_EQ(layout["microbatches"], predicted["microbatches"]);
  }
  EXPECT_EQ(plan["best"]["layout"], plan["top"][0]["layout"]);
  EXPECT_EQ(plan["by_devices"][0]["layout"], plan["best"]["layout"]);
}

// A layout's flags are pipesim's own, and so are the short names of papers.
TEST(PlanCommand, TakesTheFlagsOfALayout) {
  const std::string flags = output_of(planned +
                                      " --tensor-parallel 2 --stages 4 --data-parallel 4 "
                                      "--micro-batch-size 2 --sequence-parallel --recompute none");
  EXPECT_EQ(output_of(planned + " --fix tp=2 --fix pp=4 --fix dp=4 --fix mbs=2 --fix sp=on "
                                "--fix recompute=none"),
            flags);
  EXPECT_EQ(output_of(planned + " --only tensor-parallel=2 --only stages=4 --only data-parallel=4 "
                                "--only micro-batch-size=2 --only sequence-parallel=on "
                                "--only recompute=none"),
            flags);
  // Replicas are as many as asked for.
  const Json of_replicas = json_of(planned + " --data-parallel 8 --json");
  for (const Json& one : of_replicas["top"]) {
    EXPECT_EQ(json_of(one["command"].get<std::string>().substr(8))["training"]["data_parallel"], 8);
  }
}

// --top chooses how many are printed, not which is the best.
TEST(PlanCommand, HasTheSameBestForAnyTop) {
  const std::string line = planned + " --stages 4";
  const Json all = json_of(line)["top"];
  for (const int top : {1, 3, 5}) {
    const Json some = json_of(fmt::format("{} --top {}", line, top))["top"];
    ASSERT_EQ(some.size(), top);
    for (int i = 0; i < top; ++i) EXPECT_EQ(some[i], all[i]);
  }
}

// 36 blocks divide by 9 evenly; 7 chunks are tried if asked for.
TEST(PlanCommand, TriesChunksThatDivideTheBlocks) {
  const std::string two = question + " --schedule interleaved --stages 2 --tensor-parallel 1";
  for (const char* chunks : {"9", "7"}) {
    const Json json = json_of("plan " + two + " --virtual-stages " + chunks);
    EXPECT_NE(
        json["best"]["command"].get<std::string>().find(fmt::format("--virtual-stages {}", chunks)),
        std::string::npos);
  }
  const std::int64_t space = json_of("plan " + two)["space"];
  EXPECT_EQ(json_of("plan " + two + " --only virtual-stages=2,3,4,6,8,9,12")["space"], space);
  EXPECT_EQ(json_of("plan " + two + " --only virtual-stages=2,3,4,6,7,8,9,12")["space"],
            space / 7 * 8);
}

// 62 sequences divide among 2 replicas at most, 64 among all.
TEST(PlanCommand, NamesANearbyBatchThatDividesBetter) {
  const auto with = [](int batch) {
    return fmt::format(
        "plan --model gpt2-large --cluster dgx-a100 --devices 32 --global-batch {} --attention "
        "fused --only schedule=1f1b",
        batch);
  };
  const Json json = json_of(with(62));
  const Json& nearby = json["nearby_batch"];
  ASSERT_EQ(nearby["global_batch"], 64);
  const Json other = json_of(with(64));
  EXPECT_EQ(nearby["iteration_ns"], other["best"]["iteration_ns"]);
  EXPECT_TRUE(other["nearby_batch"].is_null());
  const double asked = json["best"]["iteration_ns"].get<double>() / 62;
  EXPECT_NEAR(nearby["gain_per_sequence"].get<double>(),
              1 - nearby["iteration_ns"].get<double>() / 64 / asked, 1e-9);
  EXPECT_NE(output_of(with(62)).find("With --global-batch 64 an iteration takes"),
            std::string::npos);
}

// The best fits with the whole band of its peak; what is faster, but may not, is named beside it.
TEST(PlanCommand, NamesTheFastestThatIsSureToFitAndTheFasterOneThatMayNot) {
  const std::string line =
      "plan --model llama-3-8b --cluster dgx-h100 --devices 64 --global-batch 128";
  const Json json = json_of(line);
  const double fraction = json["memory_error_band"]["fraction"];
  const double device = json["memory_cap_bytes"];
  const double certain = json["certain_memory_bytes"];
  EXPECT_NEAR(certain * (1 + fraction), device, 2);
  for (const Json& one : json["top"]) EXPECT_LE(one["peak_memory_bytes"].get<double>(), certain);
  const Json& riskier = json["riskier"];
  ASSERT_FALSE(riskier.is_null());
  EXPECT_GT(riskier["peak_memory_bytes"].get<double>(), certain);
  EXPECT_LE(riskier["peak_memory_bytes"].get<double>(), device);
  EXPECT_LT(riskier["iteration_ns"].get<std::int64_t>(),
            json["best"]["iteration_ns"].get<std::int64_t>());
  // Each command says the same of itself, and so does --why.
  const auto verdict_of = [](const Json& one) {
    return output_of(one["command"].get<std::string>().substr(8));
  };
  EXPECT_NE(verdict_of(json["best"]).find("memory  fits: the fullest rank holds"),
            std::string::npos);
  EXPECT_NE(verdict_of(riskier).find("memory  may not fit: the fullest rank holds"),
            std::string::npos);
  EXPECT_NE(output_of(line).find("Faster, but may not fit: "), std::string::npos);
  // A cap under the band leaves nothing to doubt.
  const std::string capped = fmt::format(" --memory-cap {}B", static_cast<std::int64_t>(certain));
  EXPECT_TRUE(json_of(line + capped)["riskier"].is_null());
  EXPECT_EQ(output_of(line + capped).find("may not fit"), std::string::npos);
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
  EXPECT_NE(refused.err.find("break the rule that replicas x micro-batch divides the global batch"),
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

// What the best counts on, as the command with the flag gives it.
TEST(PlanCommand, SaysWhatOverlapItCountsOn) {
  const std::string line =
      "plan --model llama-3-8b --cluster dgx-h100 --devices 16 --global-batch 64 --tensor-parallel "
      "4 --sequence-parallel --stages 1";
  const Json plan = json_of(line);
  const std::string command = plan["best"]["command"].get<std::string>().substr(8);
  const Json without = json_of(command + " --tensor-overlap reductions");
  EXPECT_EQ(plan["without_overlap_ns"], without["makespan_ns"]) << command;
  EXPECT_GT(without["makespan_ns"], plan["best"]["iteration_ns"]);
  EXPECT_NE(output_of(line).find("--tp-comm-overlap"), std::string::npos);
  EXPECT_EQ(json_of(line + " --tensor-overlap reductions")["without_overlap_ns"], nullptr);
}

// ---- From a script

// A command's flags with their values, without its program.
std::map<std::string, std::string> flags_of(std::string command) {
  std::erase(command, '\'');
  std::map<std::string, std::string> flags;
  std::string name;
  for (const std::string& word : words(command.substr(std::string("pipesim ").size()))) {
    if (word.starts_with("--")) {
      flags[name = word] = "";
    } else {
      flags[name] = word;
    }
  }
  return flags;
}

Json predicted_with(const std::map<std::string, std::string>& flags) {
  std::string line = "--json";
  for (const auto& [name, value] : flags) line += " " + name + " " + value;
  const Outcome outcome = call(line);
  EXPECT_EQ(outcome.status, 0) << line << outcome.err;
  return Json::parse(outcome.out);
}

// Its own layout is what import's command gives; each step is what predict gives of its flags.
void expect_way(const std::string& sample, const std::string& more) {
  const TemporaryFolder folder;
  const std::string script =
      source_file("examples/import/" + sample) + " --cluster dgx-h100" + more;
  const Json plan = json_of("plan --from " + script);
  std::string command = json_of("import " + script)["command"];
  if (command.find("--stages") == std::string::npos) command += " --stages 1";
  const Json& steps = plan["from"]["steps"];
  std::map<std::string, std::string> flags = flags_of(command);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const auto& [name, value] : steps[i]["changed"].items()) {
      flags.erase(name);
      if (!value.is_null()) flags[name] = value == "on" ? "" : value.get<std::string>();
    }
    const Json predicted = predicted_with(flags);
    EXPECT_EQ(predicted["makespan_ns"], steps[i]["iteration_ns"]) << sample << " " << steps[i];
    EXPECT_EQ(predicted["peak_memory_bytes"], steps[i]["peak_memory_bytes"]) << sample;
  }
  EXPECT_EQ(steps.back()["iteration_ns"], plan["best"]["iteration_ns"]) << plan["from"];
  EXPECT_EQ(steps.back()["peak_memory_bytes"], plan["best"]["peak_memory_bytes"]);
  // --why takes all that import prints.
  std::vector<std::string> line = words("plan --json --from " + script + " --why");
  line.push_back(command);
  const Outcome why = pipesim(line);
  ASSERT_EQ(why.status, 0) << why.err;
  EXPECT_EQ(Json::parse(why.out)["iteration_ns"], steps[0]["iteration_ns"]) << why.out;
}

TEST(PlanFrom, IsAWayOfSteps) {
  expect_way("megatron_gpt3.sh", "");
  expect_way("torchtitan_8b.toml", " --devices 64");
  expect_way("deepspeed.json", " --devices 8 --model gpt2-xl");
}

TEST(PlanFrom, SaysWhatItLacksAndAssumes) {
  const std::string sample = "plan --from " + source_file("examples/import/deepspeed.json");
  expect_refused(sample, 2,
                 "does not say --model (the file does not say what is trained), --cluster");
  expect_refused(sample + " --cluster dgx-h100 --model gpt2-xl --devices 8,16", 2,
                 "--from: for how many devices?");
  expect_refused("plan " + question + " --ignore moe", 2, "are for the script of --from");
  const std::string report = output_of(sample + " --cluster dgx-h100 --model gpt2-xl --devices 8");
  EXPECT_NE(report.find("Assumed: --stages 1; "), std::string::npos) << report;
  expect_lines_within(report, 80);
}

}  // namespace
}  // namespace pipesim
