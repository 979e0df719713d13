// `pipesim --input-pipeline`, as a user drives it.
#include <gtest/gtest.h>

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

void expect_refused(const Words& arguments, const std::string& part) {
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
  EXPECT_EQ(json["format"], "pipesim-input-result");
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
  EXPECT_EQ(json["format"], "pipesim-input-programs");
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
  EXPECT_EQ(answers["format"], "pipesim-input-whatif");
  ASSERT_EQ(answers["rows"].size(), 3U);
  EXPECT_LT(answers["rows"][0]["change"].get<double>(), -0.05);
  EXPECT_GT(answers["rows"][1]["change"].get<double>(), 0.02);

  std::string text = read_file(program);
  const std::size_t wait = text.find("data_dist SPLITS0 after COPY0");
  ASSERT_NE(wait, std::string::npos);
  text.erase(wait + 17, 12);
  expect_refused({"--input-pipeline", file("race.program", text), "--costs", costs},
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
  expect_refused({"--input-pipeline", "sparse", "--model", "dlrm-mini", "--cluster", "dgx-a100"},
                 "unknown input pipeline 'sparse'; known, nearest first: base");
  expect_refused({"--input-pipeline", "base"}, "--model is missing");
  expect_refused({"--input-pipeline", "base", "--model", "dlrm-mini"}, "--cluster is missing");
  expect_refused({"--input-pipeline", "base", "--model", "gpt2-small", "--cluster", "dgx-a100"},
                 "gpt2-small");
  expect_refused({"--batches", "4"}, "--batches is of an input pipeline; give --input-pipeline");
  expect_refused(mini + Words{"--stages", "4"}, "--stages: an input pipeline has no use for it");
  expect_refused(mini + Words{"--ranks", "0"}, "--ranks");
  expect_refused(mini + Words{"--input-stages", "copy,dist"},
                 "only --input-pipeline staged has stages of one's own");
  expect_refused(mini + Words{"--table-optimizer", "adam"}, "unknown optimizer of tables 'adam'");
  expect_refused(mini + Words{"--costs", "costs.json"},
                 "--model and --costs both say what actions take");
  expect_refused({"--input-pipeline", folder_ / "none.program", "--model", "dlrm-mini", "--cluster",
                  "dgx-a100"},
                 "none.program");
}

TEST_F(InputCommand, PlansThatAreNoneNameTheTable) {
  Json plan = result_of(mini)["sharding"];
  const auto refused = [&](const Json& changed, const std::string& part) {
    expect_refused(mini + Words{"--sharding", file("plan.json", changed.dump())}, part);
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
  expect_refused(mini + Words{"--sharding", file("twice.json", twice)}, "'" + first + "'");
}

TEST_F(InputCommand, MemoryThatARankLacksNamesRankAndTable) {
  const Words large{"--input-pipeline", "base",    "--model", "dlrm-dcnv2", "--cluster",
                    "dgx-a100",         "--ranks", "1",       "--batches",  "2"};
  expect_refused(large, "rank 0 lacks");
  expect_refused(large, "of its tables '");
  const Outcome all_the_same = pipesim(large + Words{"--memory-cap", "1TiB"});
  EXPECT_EQ(all_the_same.status, 0) << all_the_same.err;
}

}  // namespace
}  // namespace pipesim
