// `pipesim feed`, as a user drives it.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/command.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::expect_one_sentence;
using testing::Outcome;
using testing::pipesim;
using Words = std::vector<std::string>;

Words operator+(Words first, const Words& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

const Words mini{"--input-pipeline", "sparse-dist", "--model", "dlrm-mini", "--cluster",
                 "dgx-a100",         "--ranks",     "4",       "--batches", "12"};

Json result_of(const Words& arguments) {
  const Outcome outcome = pipesim(arguments + Words{"--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

void expect_input_refused(const Words& arguments, const std::string& part) {
  expect_one_sentence(pipesim(arguments), "pipesim", "", 2, part);
}

class InputCommand : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    write_file(path, text);
    return path;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(InputCommand, SaysWhatIsPromised) {
  const Json json = result_of(mini);
  EXPECT_EQ(json["format"], "pipesim-result");
  EXPECT_EQ(json["input_pipeline"], "sparse-dist");
  ASSERT_EQ(json["ranks"].size(), 4U);
  const std::int64_t makespan = json["makespan_ns"], steady = json["steady_iteration_ns"];
  EXPECT_GT(makespan, 11 * steady);  // twelve batches, and the first one's way to the device
  EXPECT_NEAR(json["samples_per_second"].get<double>(),
              4 * 4096 * 1e9 / static_cast<double>(steady), 1);
  for (const Json& rank : json["ranks"]) {
    std::int64_t sum = rank["busy_ns"].get<std::int64_t>() + rank["drain_ns"].get<std::int64_t>();
    for (const auto& [kind, time] : rank["exposed_ns"].items()) sum += time.get<std::int64_t>();
    EXPECT_EQ(sum, makespan);
    EXPECT_TRUE(rank["fits"].get<bool>());
  }
  std::int64_t gain = steady;
  for (const Json& limit : json["limits"]) {  // the greatest first
    EXPECT_LE(limit["gain_ns"], gain);
    gain = limit["gain_ns"];
    EXPECT_EQ(
        limit["gain_ns"].get<std::int64_t>() + limit["steady_iteration_ns"].get<std::int64_t>(),
        steady);
  }
  EXPECT_EQ(json["sharding"]["tables"].size(), 8U);
  EXPECT_EQ(pipesim(mini + Words{"--json"}).out, pipesim(mini + Words{"--json"}).out);
}

TEST_F(InputCommand, ProgramsStandSideBySide) {
  const Json json = result_of(mini + Words{"--compare"});
  EXPECT_EQ(json["format"], "pipesim-schedules-comparison");
  std::set<std::string> names;
  for (const Json& program : json["programs"]) {
    const std::string name = program["input_pipeline"];
    names.insert(name);
    Words alone = mini;
    alone[1] = name;
    EXPECT_EQ(program["steady_iteration_ns"], result_of(alone)["steady_iteration_ns"]) << name;
  }
  EXPECT_EQ(names, (std::set<std::string>{"base", "fused", "lite", "prefetch", "semi-sync",
                                          "sparse-dist", "staged"}));
  const Outcome table = pipesim(mini + Words{"--compare"});
  EXPECT_EQ(table.status, 0);
  for (const std::string& name : names) EXPECT_NE(table.out.find("\n" + name), std::string::npos);
}

// A program that is written, changed by hand and read again; costs that are calibrated on a trace.
TEST_F(InputCommand, ProgramsAndCostsGoThroughFiles) {
  const std::string program = folder_ / "own.program", trace = folder_ / "run.json",
                    costs = folder_ / "costs.json";
  const Outcome written = pipesim(mini + Words{"--export", program, "--trace", trace, "--quiet"});
  ASSERT_EQ(written.status, 0) << written.err;
  const Json own = result_of(mini);
  Words by_file = mini;
  by_file[1] = program;
  EXPECT_EQ(result_of(by_file)["makespan_ns"], own["makespan_ns"]);

  ASSERT_EQ(pipesim({"calibrate", trace, "-o", costs}).status, 0);
  const Json again = result_of({"--input-pipeline", program, "--costs", costs});
  // Links that exchanges share are times by now.
  EXPECT_NEAR(again["steady_iteration_ns"].get<double>(), own["steady_iteration_ns"].get<double>(),
              0.02 * own["steady_iteration_ns"].get<double>());

  const Outcome asked = pipesim(
      {"whatif", trace, "--scale", "TOP_BACKWARD=0.5", "--input-pipeline", "base", "--json"});
  ASSERT_EQ(asked.status, 0) << asked.err;
  const Json answers = Json::parse(asked.out);
  EXPECT_EQ(answers["format"], "pipesim-whatif");
  ASSERT_EQ(answers["rows"].size(), 3U);
  EXPECT_LT(answers["rows"][0]["change"].get<double>(), -0.05);
  EXPECT_GT(answers["rows"][1]["change"].get<double>(), 0.02);

  std::string text = read_file(program);
  const std::size_t wait = text.find("data_dist SPLITS0 after COPY0");
  ASSERT_NE(wait, std::string::npos);
  text.erase(wait + 17, 12);
  expect_input_refused({"--input-pipeline", file("race.program", text), "--costs", costs},
                       "SPLITS0 may start before COPY0 has ended");
}

TEST_F(InputCommand, AutomaticShardingIsNoWorse) {
  const Words large{"--input-pipeline", "base",    "--model", "dlrm-dcnv2", "--cluster",
                    "dgx-a100",         "--ranks", "8",       "--batches",  "8"};
  const Json whole = result_of(large), chosen = result_of(large + Words{"--sharding", "auto"});
  EXPECT_LT(chosen["steady_iteration_ns"], whole["steady_iteration_ns"]);
  EXPECT_GT(chosen["plans_evaluated"], 100);
  const std::string plan = file("plan.json", chosen["sharding"].dump());
  EXPECT_EQ(result_of(large + Words{"--sharding", plan})["makespan_ns"], chosen["makespan_ns"]);
}

TEST_F(InputCommand, WrongInputIsASentence) {
  expect_input_refused(
      {"--input-pipeline", "sparse", "--model", "dlrm-mini", "--cluster", "dgx-a100"},
      "unknown input pipeline 'sparse'; known, nearest first: base");
  expect_input_refused({"--input-pipeline", "base"}, "--model is missing");
  expect_input_refused({"--input-pipeline", "base", "--model", "dlrm-mini"},
                       "--cluster is missing");
  expect_input_refused(
      {"--input-pipeline", "base", "--model", "gpt2-small", "--cluster", "dgx-a100"}, "gpt2-small");
  expect_input_refused({"--batches", "4"}, "--model is missing");
  expect_input_refused(mini + Words{"--stages", "4"},
                       "--stages is a flag of `pipesim predict`, not of `pipesim feed`");
  expect_input_refused(mini + Words{"--ranks", "0"}, "--ranks");
  expect_input_refused(mini + Words{"--input-stages", "copy,dist"},
                       "only --input-pipeline staged takes stages");
  expect_input_refused(mini + Words{"--table-optimizer", "adam"},
                       "unknown optimizer of tables 'adam'");
  expect_input_refused(mini + Words{"--costs", "costs.json"},
                       "--model and --costs both give the times of actions");
  expect_input_refused({"--input-pipeline", folder_ / "none.program", "--model", "dlrm-mini",
                        "--cluster", "dgx-a100"},
                       "none.program");
}

TEST_F(InputCommand, PlansThatAreNoneNameTheTable) {
  Json plan = result_of(mini)["sharding"];
  const auto refused = [&](const Json& changed, const std::string& part) {
    expect_input_refused(mini + Words{"--sharding", file("plan.json", changed.dump())}, part);
  };
  Json changed = plan;
  const std::string first = plan["tables"].begin().key();
  changed["tables"].erase(first);
  refused(changed, "'" + first + "'");
  changed = plan;
  changed["tables"]["nobody"] = {{"sharding", "row-wise"}};
  refused(changed, "'nobody'");
  changed = plan;
  changed["tables"][first] = {{"sharding", "table-wise"}, {"rank", 4}};
  refused(changed, "rank");
  std::string twice = plan.dump();
  twice.insert(twice.find('{', twice.find("tables")) + 1,
               "\"" + first + R"(":{"sharding":"row-wise"},)");
  expect_input_refused(mini + Words{"--sharding", file("twice.json", twice)}, "'" + first + "'");
}

TEST_F(InputCommand, MemoryThatARankLacksNamesRankAndTable) {
  const Words large{"--input-pipeline", "base",    "--model", "dlrm-dcnv2", "--cluster",
                    "dgx-a100",         "--ranks", "1",       "--batches",  "2"};
  expect_input_refused(large, "rank 0 lacks");
  expect_input_refused(large, "of its tables '");
  const Outcome all_the_same = pipesim(large + Words{"--memory-cap", "1TiB"});
  EXPECT_EQ(all_the_same.status, 0) << all_the_same.err;
}

TEST_F(InputCommand, AbsurdNumbersAreRefusedAtOnce) {
  const Words model{"--input-pipeline", "fused", "--model", "dlrm-mini", "--cluster", "dgx-a100"};
  for (const std::string flag : {"--ranks", "--batches", "--batch-size", "--accumulate"}) {
    expect_input_refused(model + Words{flag, "0"}, flag + ": 0 must be 1 or more");
    expect_input_refused(model + Words{flag, "-1"}, flag + ": -1 must be 1 or more");
    expect_input_refused(model + Words{flag, "1e18"}, flag + ": '1e18' is not a whole number");
    expect_input_refused(model + Words{flag, "1000000000000000000"}, "the limit is 1000000000");
  }
  expect_input_refused(model + Words{"--ranks", "5000", "--batches", "1"},
                       "an input pipeline has 4,096 ranks at most, not 5,000");
  expect_input_refused(
      model + Words{"--ranks", "4096", "--batches", "1000000"},
      "1,000,000 batches of 4,096 ranks are 77,824,000,000 calls, more than this holds "
      "in memory; 4,000,000 batches in all are the most");
  expect_input_refused(model + Words{"--batch-size", "1000000000"}, "use smaller batches");
  expect_input_refused(mini + Words{"--accumulate", "13"},
                       "--accumulate 13: there are 12 batches; give at most as many");
  expect_input_refused(mini + Words{"--id-seed", "-1"}, "--id-seed: '-1' is not a whole number");
  expect_input_refused(mini + Words{"--memory-cap", "nan"}, "--memory-cap: 'nan' is not a number");
}

TEST_F(InputCommand, CostsThatSumsHaveNoRoomForAreRefused) {
  const auto costs = [&](const std::string& members) {
    return file("costs.json",
                R"({"format":"pipesim-costs","version":1,"ranks":2,)" + members + "}");
  };
  const auto refused = [&](const std::string& members, const Words& more, const std::string& part) {
    expect_input_refused(Words{"--input-pipeline", "base", "--costs", costs(members)} + more, part);
  };
  refused(R"("links":[{"name":"a","bandwidth_bytes_per_s":1}],)"
          R"("work":{"COPY":{"bytes":1125899906842624,"links":["a"]}})",
          {}, "take more than 146 years together; use smaller costs");
  refused(R"("work":{"TOP":{"duration_ns":1000000000000000}})", {"--batches", "10000"},
          "take more than 146 years together; use smaller costs");
  refused(R"("work":{},"holdings":{"batch_bytes":1125899906842624})", {"--batches", "10000"},
          "rank 0 holds 1.13e+15 bytes of each batch, too many for 10,000 batches");
  refused(R"("work":{"TOP":{"duration_ns":NaN}})", {}, "not JSON: Invalid value");
  refused(R"("work":{})", {"--memory-cap", "1GiB"},
          "has no holdings, which give each rank's memory");
  refused(R"("work":{})", {"--ranks", "3"},
          "costs are for 2 ranks, but the input pipeline has 3; give the same");
  refused(R"("links":[{"name":"a","bandwidth_bytes_per_s":1},)"
          R"({"name":"a","bandwidth_bytes_per_s":1}],"work":{})",
          {}, "links[1].name: there are two links 'a'; give each a name of its own");
  expect_input_refused({"--input-pipeline", "base", "--costs",
                        file("c.json", R"({"format":"pipesim-costs","version":1,"stages":[]})")},
                       "these are costs of a pipeline's stages");
  const std::string input = file("i.json", R"({"format":"pipesim-costs","version":1,"work":{}})");
  const std::string recommends =
      file("m.json", R"({"format":"pipesim-model","version":1,"tables":[]})");
  const std::string program = file("a.program", "pipesim-program 1\nbatches 1\nrank 0\n");
  expect_input_refused({"--schedule", "gpipe", "--costs", input}, "for `pipesim feed`");
  expect_input_refused({"--schedule", "gpipe", "--cluster", "dgx-h100", "--model", recommends},
                       "for `pipesim feed`");
  expect_input_refused({"--schedule", program}, "for `pipesim feed`");
}

TEST_F(InputCommand, FilesThatAreNoneAreRefused) {
  const std::string folder = folder_ / ".", empty = file("empty.json", "");
  const Words model{"--cluster", "dgx-a100", "--model", "dlrm-mini", "--input-pipeline"};
  expect_input_refused(model + Words{folder}, "Is a directory");
  expect_input_refused(model + Words{empty}, "empty.json:1: it is empty");
  expect_input_refused(model + Words{"/dev/zero"}, "it is a device; give a file or a pipe");
  expect_input_refused({"--input-pipeline", "base", "--model", empty, "--cluster", "dgx-a100"},
                       "The document is empty");
  expect_input_refused({"--input-pipeline", "base", "--costs", "c.json", "--cluster", "dgx-a100"},
                       "--cluster: it has no effect with --costs");
  expect_input_refused({"--input-pipeline", "base", "--costs", empty}, "The document is empty");
  expect_input_refused({"--input-pipeline", "base", "--costs", folder}, "Is a directory");
  expect_input_refused(mini + Words{"--sharding", empty}, "The document is empty");
  expect_input_refused(mini + Words{"--trace", folder}, "it is a folder");
  expect_input_refused(mini + Words{"--trace", folder_ / "none/x.json"},
                       "No such file or directory");
  expect_input_refused(mini + Words{"--trace", folder_ / "a", "--export", folder_ / "a"},
                       "--trace and --export name the same file; write to another");
  const std::string plan = file("plan.json", result_of(mini)["sharding"].dump());
  expect_input_refused(mini + Words{"--sharding", plan, "--trace", plan},
                       "--sharding and --trace name the same file; write to another");
  EXPECT_FALSE(read_file(plan).empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
}

// A run of an input pipeline among those of schedules, and the reverse.
TEST_F(InputCommand, TracesOfOtherKindsAreToldApart) {
  const std::string own = folder_ / "own.json", other = folder_ / "other.json";
  ASSERT_EQ(pipesim(mini + Words{"--trace", own, "--quiet"}).status, 0);
  ASSERT_EQ(pipesim({"--schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--trace", other,
                     "--quiet"})
                .status,
            0);
  const std::string kinds = "; compare two runs of one program";
  expect_input_refused({"compare", own, other}, kinds);
  expect_input_refused({"compare", other, own}, kinds);
  const std::string alone = "own.json: a run of an input pipeline is one trace, of all its ranks";
  for (const Words& both : {Words{own, other}, Words{other, own}, Words{own, own}}) {
    expect_input_refused(Words{"report"} + both, alone);
    expect_input_refused(Words{"calibrate"} + both + Words{"-o", folder_ / "costs.json"}, alone);
    expect_input_refused(Words{"whatif"} + both + Words{"--scale", "IDS=2"}, alone);
  }
  // A folder stands for the trace in it.
  std::filesystem::create_directory(folder_ / "one");
  std::filesystem::copy(own, folder_ / "one/run.json");
  EXPECT_EQ(pipesim({"whatif", folder_ / "one", "--scale", "IDS=2", "--json"}).status, 0);
  expect_input_refused({"whatif", other, "--input-pipeline", "base"},
                       "--input-pipeline: the run has a schedule, not an input pipeline");
  expect_input_refused({"whatif", own, "--schedule", "gpipe"},
                       "--schedule: it does not apply to a run of an input pipeline");
  expect_input_refused({"whatif", own, "--scale", "rank4=2"},
                       "--scale: there is no rank 4 among 4 ranks; give one from 0 to 3");
  for (const char* scale : {"IDS=nan", "IDS=-1", "IDS=1e9", "IDS", "=", ","}) {
    expect_input_refused({"whatif", own, "--scale", scale}, "a change is a kind, a rank or both");
  }
  expect_input_refused(mini + Words{"--sharding", own}, "key 'format' is missing");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "costs.json"));
}

// What is scaled beyond 64 bits is refused, and not negative.
TEST_F(InputCommand, TimesBeyondSixtyFourBitsAreRefused) {
  const std::string costs =
      file("costs.json", R"({"format":"pipesim-costs","version":1,"ranks":1,)"
                         R"("work":{"TOP":{"duration_ns":1000000000000000}}})");
  const std::string trace = folder_ / "long.json";
  ASSERT_EQ(pipesim({"--input-pipeline", "base", "--batches", "1000", "--costs", costs, "--trace",
                     trace, "--quiet"})
                .status,
            0);
  expect_input_refused({"whatif", trace, "--scale", "TOP=1000"},
                       "take more than 146 years together; use smaller costs");
}

}  // namespace
}  // namespace pipesim
