// Opening traces as a user does: what becomes a run, what events, what is compared.
#include "gui/scene/document.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <optional>

#include "gui/scene/scene.h"
#include "sim/engine/record_run.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/profiles.h"
#include "tests/random_schedule.h"
#include "tests/recorded.h"
#include "traces/base/files.h"
#include "traces/chrome_writer.h"

namespace pipesim::gui {
namespace {

using testing::Json;
using testing::TemporaryFolder;

// A predicted trace at `path`, which is returned.
std::string predict(const std::string& path, const ScheduleRequest& request,
                    std::int64_t forward_ns = 1'000'000) {
  const Schedule schedule = generate(request);
  Costs costs = testing::costs_of(schedule.placement.stages(), forward_ns, 2'000'000, 1000);
  for (StageCosts& stage : costs.stages) stage.output_bytes = 50;
  OutputFile file(path);
  write_chrome_trace(record_run(schedule, costs), file);
  file.commit();
  return path;
}

// The same, as if it had been measured.
std::string measure(const std::string& path, const ScheduleRequest& request,
                    std::int64_t forward_ns) {
  predict(path, request, forward_ns);
  Json json = Json::parse(read_file(path));
  json["metadata"]["pipesim"]["source"] = "measured";
  write_file(path, json.dump());
  return path;
}

std::string data(const std::string& name) {
  return testing::source_file("tests/data/traces/" + name);
}

// What each trace is: "run" or "events", with its name.
std::vector<std::string> kinds(const Document& document) {
  std::vector<std::string> texts;
  for (const auto& trace : document.traces) {
    EXPECT_NE(trace->run.has_value(), trace->events.has_value());
    texts.push_back((trace->run ? "run " : "events ") + trace->name);
  }
  return texts;
}
using Texts = std::vector<std::string>;

// Both directions of the index agree with the runs, by actions.
void expect_indexed(const Document& document) {
  ASSERT_TRUE(document.pair);
  const Pair& pair = *document.pair;
  const Operations& operations = pair.comparison.operations;
  for (const Side side : both_sides) {
    const RecordedRun& run = *document.traces[static_cast<std::size_t>(pair.trace[side])]->run;
    const RecordedIteration& iteration = run.iterations[run.median_iteration()];
    ASSERT_EQ(pair.span_of[side].size(), operations.size());
    for (OperationId id = 0; id < operations.size(); ++id) {
      const Ref span = pair.span_of[side][id];
      if (!operations.transfers(id)) {
        EXPECT_EQ(span != no_ref, operations.sides[side][id].exists());
      }
      if (span == no_ref) continue;
      ASSERT_GE(span, iteration.begin);
      ASSERT_LT(span, iteration.end);
      Action action = run.spans[span].action;
      action.joined = false;
      EXPECT_EQ(to_text(action), to_text(operations.actions[id]));
      EXPECT_EQ(pair.find(side, span), id);
    }
    for (std::size_t i = 0; i < run.spans.size(); ++i) {
      const Action& action = run.spans[i].action;
      const bool inside = i >= iteration.begin && i < iteration.end;
      const OperationId expected =
          inside ? operations.find(is_receive(action.kind) ? peer_of(action) : action)
                 : no_operation;
      EXPECT_EQ(pair.find(side, static_cast<Ref>(i)), expected);
    }
  }
}

// A measured run of several replicas, each so much later than the one before.
std::string measure_replicas(const std::string& path, int replicas) {
  measure(path, {"1f1b", 2, 4}, 1'300'000);
  Json json = Json::parse(read_file(path));
  json["metadata"]["pipesim"]["data_parallel"] = replicas;
  json["metadata"]["pipesim"]["zero"] = 0;
  Json events = Json::array();
  for (const Json& event : json["traceEvents"]) {
    for (int replica = 0; replica < replicas; ++replica) {
      Json own = event;
      if (own.contains("ts")) own["ts"] = double(own["ts"]) + 100 * replica;
      if (own.contains("args")) own["args"]["replica"] = replica;
      events.push_back(std::move(own));
    }
  }
  json["traceEvents"] = std::move(events);
  write_file(path, json.dump());
  return path;
}

// Replicas lie under each other in the rows of their pipeline rank, and have one clock.
TEST(Document, OpensAllReplicas) {
  const TemporaryFolder folder;
  const std::string plan = predict(folder / "plan.json", {"1f1b", 2, 4});
  const std::string run = measure_replicas(folder / "run.json", 3);
  const Texts names{"run run.json, replica 1", "run run.json, replica 2",
                    "run run.json, replica 3"};
  const Document alone = open_traces({run});
  EXPECT_EQ(kinds(alone), names);
  EXPECT_FALSE(alone.pair) << "replicas of a run are not compared unless asked for";
  EXPECT_EQ(alone.not_compared, "");
  for (const auto& trace : alone.traces) EXPECT_EQ(trace->banner, "");

  const Document both = open_traces({plan, run});
  ASSERT_TRUE(both.pair);
  EXPECT_EQ(both.pair->trace, (std::array{0, 1}));
  for (const Alignment alignment : {Alignment::iteration, Alignment::absolute}) {
    SceneOptions options;
    options.alignment = alignment;
    const Scene scene = build_scene(both, options);
    ASSERT_EQ(scene.groups.size(), 2U);
    for (const Group& group : scene.groups) {
      Texts labels;
      for (const Lane& lane : group.lanes) labels.push_back(lane.label);
      EXPECT_EQ(labels, (Texts{"predicted", "measured", "replica 2", "replica 3"}));
      const auto first_work = [&](std::size_t lane) {
        const BarRow& row = group.lanes[lane].rows.front();
        std::size_t bar = 0;
        while (is_bubble(row[bar].shade)) ++bar;
        return row.start_ns(bar) + group.lanes[lane].offset_ns;
      };
      EXPECT_EQ(first_work(2) - first_work(1), 100'000);
      EXPECT_EQ(first_work(3) - first_work(1), 200'000);
    }
  }
  const Document last = compared(both, 0, 3);
  EXPECT_EQ(last.pair->trace, (std::array{0, 3}));
  EXPECT_EQ(name_of_run(last, 1), "replica 1");
  const Scene scene = build_scene(last, {});
  EXPECT_EQ(scene.groups[0].lanes[2].offset_ns, scene.groups[0].lanes[1].offset_ns);

  // One of them, and of too many the first.
  ProfileOptions second;
  second.replica = 2;
  EXPECT_EQ(kinds(open_traces({run}, {}, second)), Texts{names[1]});
  const Document first = open_traces({run}, {}, {}, 2);
  EXPECT_EQ(kinds(first), Texts{names[0]});
  EXPECT_NE(first.traces[0]->banner.find("pipeline 1 of 3: ranks 0, 3; others by --replica"),
            std::string::npos)
      << first.traces[0]->banner;
}

TEST(Document, ComparesThePredictionWithTheRun) {
  const TemporaryFolder folder;
  const std::string plan = predict(folder / "plan.json", {"interleaved", 2, 4, 2});
  const std::string run = measure(folder / "run.json", {"interleaved", 2, 4, 2}, 1'300'000);
  for (const auto& paths : {Texts{plan, run}, Texts{run, plan}}) {
    const Document document = open_traces(paths);
    EXPECT_EQ(document.traces.size(), 2U);
    ASSERT_TRUE(document.pair);
    const int first = paths.front() == plan ? 0 : 1;
    EXPECT_EQ(document.pair->trace, (std::array{first, 1 - first}));
    EXPECT_EQ(document.side_of(first), predicted_side);
    EXPECT_EQ(document.side_of(1 - first), measured_side);
    EXPECT_EQ(document.not_compared, "");
    expect_indexed(document);
    const auto& sides = document.pair->comparison.sides;
    EXPECT_GT(sides[measured_side].makespan_ns, sides[predicted_side].makespan_ns);
    EXPECT_EQ(label_of(*document.traces[0], 0), "0F0");
    EXPECT_EQ(document.traces[0]->banner, "");
    EXPECT_FALSE(document.capacity_bytes.has_value());
  }
}

TEST(Document, ASingleTraceIsComparedWithNothing) {
  const TemporaryFolder folder;
  const Document document = open_traces({predict(folder / "plan.json", {"1f1b", 3, 5})});
  EXPECT_EQ(kinds(document), Texts{"run plan.json"});
  EXPECT_FALSE(document.pair);
  EXPECT_EQ(document.not_compared, "");
  EXPECT_EQ(document.side_of(0), std::nullopt);
  EXPECT_EQ(document.traces[0]->source(), Source::predicted);
  // One stage a rank: the stage says nothing more.
  EXPECT_EQ(label_of(*document.traces[0], 0), "F0");
}

TEST(Document, FilesOfAProfileAreOneRun) {
  const Document document = open_traces(testing::ranks_of("1f1b"));
  EXPECT_EQ(kinds(document), Texts{"run 1f1b.rank0.json.gz and 1 more"});
  EXPECT_EQ(document.traces[0]->paths, testing::ranks_of("1f1b"));
  EXPECT_EQ(document.traces[0]->run->ranks, 2);
  const TemporaryFolder folder;
  const Document added = add_traces(document, {predict(folder / "plan.json", {"1f1b", 2, 4})});
  EXPECT_EQ(kinds(added), (Texts{"run 1f1b.rank0.json.gz and 1 more", "run plan.json"}));
  ASSERT_TRUE(added.pair);
  EXPECT_EQ(added.pair->trace, (std::array{1, 0}));
  expect_indexed(added);
  EXPECT_EQ(added.traces[0], document.traces[0]);
}

// The same ranks of two runs can't be one; where each alone can't be a run, both are events.
TEST(Document, FilesThatDoNotBelongTogetherAreOpenedApart) {
  const Document document =
      open_traces({testing::recorded("1f1b.rank0.json.gz"),
                   testing::recorded("zb-h1.rank0.json.gz"), data("hta_amd_mi250.json.gz")});
  ASSERT_EQ(document.traces.size(), 3U);
  EXPECT_TRUE(document.traces[2]->events.has_value());
  EXPECT_EQ(document.not_opened, Texts{});
  for (const auto& trace : document.traces) EXPECT_NE(trace->banner, "");
}

TEST(Document, AForeignTraceDoesNotHideTheProfile) {
  auto paths = testing::ranks_of("zb-h1");
  paths.insert(paths.begin() + 1, data("hta_event_sync.json.gz"));
  const Document document = open_traces(paths);
  EXPECT_EQ(kinds(document),
            (Texts{"run zb-h1.rank0.json.gz and 1 more", "events hta_event_sync.json.gz"}));
  const std::string& banner = document.traces[1]->banner;
  EXPECT_NE(
      banner.find("No pipeline is known in it, so it is shown as events: no range like `PP:0F0`"),
      std::string::npos)
      << banner;
  EXPECT_EQ(document.traces[1]->source(), Source::measured);
  EXPECT_FALSE(document.pair);
  const Document asked = compared(document, 0, 1);
  EXPECT_FALSE(asked.pair);
  EXPECT_NE(asked.not_compared.find("hta_event_sync.json.gz: no pipeline"), std::string::npos)
      << asked.not_compared;
}

TEST(Document, AFileCutOffShowsItsWholeEvents) {
  const TemporaryFolder folder;
  const std::string path = predict(folder / "plan.json", {"1f1b", 2, 4});
  const std::string text = read_file(path);
  std::ofstream(path) << text.substr(0, text.size() * 3 / 4);
  const Document document = open_traces({path});
  EXPECT_EQ(kinds(document), Texts{"run plan.json"});
  const std::string& banner = document.traces[0]->banner;
  EXPECT_NE(banner.find("ends in the middle"), std::string::npos) << banner;
  EXPECT_FALSE(document.traces[0]->warnings().empty());
}

TEST(Document, ActionsWithoutTheirMetadataAreEvents) {
  const TemporaryFolder folder;
  const std::string path = predict(folder / "plan.json", {"1f1b", 2, 4});
  Json json = Json::parse(read_file(path));
  json.erase("metadata");
  write_file(path, json.dump());
  const Document document = open_traces({path});
  EXPECT_EQ(kinds(document), Texts{"events plan.json"});
  EXPECT_NE(document.traces[0]->banner.find("no metadata.pipesim"), std::string::npos);
  EXPECT_EQ(label_of(*document.traces[0], 0).substr(0, 2), "0F");
}

TEST(Document, WhatIsNoTraceIsNamed) {
  const TemporaryFolder folder;
  write_file(folder / "notes.txt", "remember the milk");
  const std::string plan = predict(folder / "plan.json", {"1f1b", 2, 4});
  const Document document =
      open_traces({folder / "notes.txt", plan, folder / "none", data("chakra_graph.json")});
  EXPECT_EQ(kinds(document), Texts{"run plan.json"});
  ASSERT_EQ(document.not_opened.size(), 3U);
  EXPECT_NE(document.not_opened[0].find("notes.txt: not a Chrome trace"), std::string::npos);
  EXPECT_NE(document.not_opened[1].find("cannot read"), std::string::npos);
  EXPECT_NE(document.not_opened[2].find("an execution trace"), std::string::npos);
  EXPECT_EQ(add_traces(document, {plan}).not_opened, Texts{});

  const std::string refusal = testing::input_error_of([&] {
    open_traces({folder / "notes.txt", folder / "none"});
  });
  EXPECT_NE(refusal.find("notes.txt: not a Chrome trace"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("; cannot read"), std::string::npos) << refusal;
  EXPECT_NE(testing::input_error_of([] { open_traces({}); }), testing::no_error);
}

TEST(Document, RunsWithNothingInCommonAreShownWithoutAComparison) {
  const TemporaryFolder folder;
  const std::string plan = predict(folder / "plan.json", {"1f1b", 2, 4});
  const std::string other = folder / "other.json";
  predict(other, {"1f1b", 2, 4});
  Json json = Json::parse(read_file(other));
  json["metadata"]["pipesim"]["microbatches"] = 100;
  for (Json& event : json["traceEvents"]) {
    if (event["args"].contains("microbatch")) {
      event["args"]["microbatch"] = event["args"]["microbatch"].get<int>() + 50;
    }
  }
  write_file(other, json.dump());
  const Document document = open_traces({plan, other});
  EXPECT_EQ(document.traces.size(), 2U);
  EXPECT_FALSE(document.pair);
  EXPECT_NE(document.not_compared.find("no action of one is in the other"), std::string::npos)
      << document.not_compared;
}

TEST(Document, PairsAreChosenAndKept) {
  const TemporaryFolder folder;
  const std::string one = measure(folder / "one.json", {"1f1b", 2, 4}, 1'100'000);
  const std::string two = measure(folder / "two.json", {"1f1b", 2, 4}, 1'200'000);
  const std::string plan = predict(folder / "plan.json", {"1f1b", 2, 4});
  const Document runs = open_traces({one, two});
  ASSERT_TRUE(runs.pair);
  EXPECT_EQ(runs.pair->trace, (std::array{0, 1}));
  const Document all = add_traces(runs, {plan});
  EXPECT_EQ(all.pair, runs.pair);
  const Document chosen = compared(all, 2, 1);
  ASSERT_TRUE(chosen.pair);
  EXPECT_EQ(chosen.pair->trace, (std::array{2, 1}));
  expect_indexed(chosen);
  // Without the trace in front the pair is the same, at other places.
  const Document rest = without_trace(chosen, 0);
  EXPECT_EQ(kinds(rest), (Texts{"run two.json", "run plan.json"}));
  ASSERT_TRUE(rest.pair);
  EXPECT_EQ(rest.pair->trace, (std::array{1, 0}));
  expect_indexed(rest);
  // Without one of the pair, another is found, or none.
  const Document again = without_trace(chosen, 1);
  ASSERT_TRUE(again.pair);
  EXPECT_EQ(again.pair->trace, (std::array{1, 0}));
  EXPECT_FALSE(without_trace(again, 1).pair);
}

TEST(Document, NamesTellFilesOfOneNameApart) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "a");
  std::filesystem::create_directory(folder / "b");
  const Document document = open_traces({predict(folder / "a/t.json", {"1f1b", 2, 4}),
                                         predict(folder / "b/t.json", {"gpipe", 2, 4})});
  EXPECT_EQ(kinds(document), (Texts{"run t.json", "run b/t.json"}));
}

// Functions of Megatron-LM, which have no number: their order is the prediction's.
TEST(Document, TheFirstPredictionTellsActions) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  for (const int rank : {0, 1}) {
    testing::Profile profile(rank);
    double at = 0;
    for (const char* name : {"forward_step", "forward_step", "backward_step", "backward_step"}) {
      profile.event("python_function", std::string("schedules.py(262): ") + name, 100, 100,
                    at += 10, 8);
      profile.kernel(at + 2, at + 1000, 8);
    }
    paths.push_back(
        testing::write(folder, "rank" + std::to_string(rank) + ".json", profile.json()));
  }
  const Document without = open_traces(paths);
  EXPECT_EQ(kinds(without), (Texts{"events rank0.json", "events rank1.json"}));
  EXPECT_NE(without.traces[0]->banner.find("give the schedule that ran"), std::string::npos);

  const std::string plan = predict(folder / "plan.json", {"gpipe", 2, 2});
  Texts all = paths;
  all.push_back(plan);
  const Document with = open_traces(all);
  EXPECT_EQ(kinds(with), (Texts{"run rank0.json and 1 more", "run plan.json"}));
  EXPECT_EQ(with.traces[0]->run->identified, Identified::inferred);
  EXPECT_TRUE(with.pair);
  EXPECT_EQ(kinds(add_traces(open_traces({plan}), paths)),
            (Texts{"run plan.json", "run rank0.json and 1 more"}));
}

TEST(Document, TellsHowFarItIs) {
  const TemporaryFolder folder;
  const std::string plan = predict(folder / "plan.json", {"1f1b", 16, 300});
  const std::string run = measure(folder / "run.json", {"1f1b", 16, 300}, 1'100'000);
  std::vector<double> told;
  Texts words;
  const Document document = open_traces({plan, run, data("hta_amd_mi250.json.gz")},
                                        [&](double fraction, const std::string& what) {
                                          told.push_back(fraction);
                                          if (words.empty() || words.back() != what)
                                            words.push_back(what);
                                          return true;
                                        });
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_GE(told.front(), 0);
  EXPECT_EQ(told.back(), 1);
  EXPECT_GT(told.size(), 20U);
  EXPECT_LE(told.size(), 320U);
  EXPECT_EQ(words, (Texts{"reading 3 files", "comparing", "done"}));
  EXPECT_EQ(document.traces.size(), 3U);
}

// Given up at any time it ends at once, whichever thread was told.
TEST(Document, IsGivenUpAtAnyTime) {
  const TemporaryFolder folder;
  const std::string plan = predict(folder / "plan.json", {"1f1b", 16, 100});
  const std::string run = measure(folder / "run.json", {"1f1b", 16, 100}, 1'100'000);
  Texts paths = testing::ranks_of("gpipe");
  paths.insert(paths.end(), {plan, run, data("hta_amd_mi250.json.gz")});
  int all = 0;
  open_traces(paths, [&](double, const std::string&) { return ++all > 0; });
  // How often it is told does not depend on how the threads take turns.
  for (int last = 1; last < all; last += 7) {
    int told = 0;
    EXPECT_THROW(open_traces(paths, [&](double, const std::string&) { return ++told < last; }),
                 Cancelled);
    EXPECT_EQ(told, last);
  }
}

}  // namespace
}  // namespace pipesim::gui
