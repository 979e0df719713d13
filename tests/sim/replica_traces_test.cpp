// What traces tell of collectives: read back, drawn, compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "sim/compare/comparison.h"
#include "sim/engine/record_run.h"
#include "sim/schedule/csv.h"
#include "tests/command.h"
#include "tests/files.h"
#include "tests/recorded.h"
#include "tests/replicas.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/chrome_writer.h"
#include "traces/print/picture.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

using testing::byte_a_ns;
using testing::pick;

// One stage: F 100, B 200, a byte a nanosecond to its replicas.
Costs one_replicated_stage() {
  Costs costs = testing::costs_of(1, 100, 200);
  costs.collective_links = {{0, byte_a_ns}};
  return costs;
}

std::string trace_of(const RecordedRun& run) {
  const testing::TemporaryFolder folder;
  OutputFile file(folder / "t.json");
  write_chrome_trace(run, file);
  file.commit();
  return read_file(folder / "t.json");
}

RecordedRun read_text(const std::string& text) {
  const testing::TemporaryFolder folder;
  write_file(folder / "run.json", text);
  return read_run({folder / "run.json"});
}

TEST(ReplicaTraces, AreReadBack) {
  std::mt19937_64 random(44);
  for (int i = 0; i < 150; ++i) {
    const testing::ReplicaCase made = testing::random_replicas(random);
    SCOPED_TRACE(to_csv(made.schedule) + to_json(made.costs));
    const RecordedRun timeline = record_run(made.schedule, made.costs, made.options);
    const Metrics metrics = simulate(made.schedule, made.costs, made.options);
    const std::string trace = trace_of(timeline);
    const RecordedRun run = read_text(trace);
    EXPECT_TRUE(run.warnings.kinds().empty());
    ASSERT_EQ(run.spans.size(), timeline.spans.size());
    for (std::size_t s = 0; s < run.spans.size(); ++s) {
      const Span& got = run.spans[s];
      const Span& want = timeline.spans[s];
      EXPECT_EQ(got.action, want.action);
      EXPECT_EQ(std::tuple(got.rank, got.start_ns, got.end_ns, got.bytes),
                std::tuple(want.rank, want.start_ns, want.end_ns, want.bytes));
      if (is_collective(want.action)) {
        EXPECT_EQ(got.input_arrival_ns, want.input_arrival_ns);
      }
    }
    EXPECT_EQ(run.iterations.front().makespan_ns, metrics.makespan_ns);
    // The counters reach what the evaluation says, and come back to nothing.
    std::vector<std::int64_t> most(static_cast<std::size_t>(run.ranks));
    std::vector<std::int64_t> unsharded(most.size());
    for (const MemorySample& sample : run.samples) {
      const auto rank = static_cast<std::size_t>(sample.rank);
      most[rank] = std::max(most[rank], sample.working.unsharded);
      unsharded[rank] = sample.working.unsharded;
    }
    for (std::size_t r = 0; r < most.size(); ++r) {
      EXPECT_GE(most[r], metrics.ranks[r].peak_memory.bytes.unsharded);
      if (!made.is_scattered) {
        EXPECT_EQ(unsharded[r], 0);
      }
    }
    // What is read is written again to the byte.
    RecordedRun again = timeline;
    again.spans.assign(run.spans.begin(), run.spans.end());
    EXPECT_EQ(trace_of(again), trace);
    if (HasFailure()) return;
  }
}

TEST(ReplicaTraces, AreARowOfATrace) {
  testing::ReplicaCase made;
  made.schedule = parse_csv("0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n", "r.csv");
  made.costs = one_replicated_stage();
  made.costs.stages[0].unshard = {.latency_ns = 0, .bytes = 40, .parts = 2};
  made.costs.stages[0].unsharded_bytes = 500;
  made.costs.stages[0].reduce.bytes = 60;
  const std::string trace = trace_of(record_run(made.schedule, made.costs, made.options));
  for (
      const char* line :
      {R"("tid":4,"name":"thread_name","args":{"name":"collectives"})",
       R"({"ph":"X","name":"0UNSHARD","cat":"collective","cname":"grey","pid":1,"tid":4,"ts":0.000,)"
       R"("dur":0.040,"args":{"kind":"UNSHARD","stage":0,"rank":0,"chunk":0,"iteration":0,)"
       R"("occurrence":0,"bytes":40,"first_part_ns":20}})",
       R"("name":"0REDUCE_GRAD","cat":"collective","cname":"grey","pid":1,"tid":4,"ts":0.320)",
       R"("name":"0RESHARD","cat":"collective","cname":"grey","pid":1,"tid":1,"ts":0.320,"dur":0.000)",
       R"("ts":0.000,"args":{"unsharded":500})"}) {
    EXPECT_NE(trace.find(line), std::string::npos) << line << "\n" << trace;
  }
}

// What is never gathered is no category of the memory.
TEST(ReplicaTraces, SayNothingOfWhatIsNotGathered) {
  testing::ReplicaCase made;
  made.schedule = parse_csv("0F0,0B0\n", "r.csv");
  made.costs = one_replicated_stage();
  made.costs.stages[0].activation_bytes = 1;
  made.costs.stages[0].unshard.bytes = 40;
  made.costs.stages[0].unsharded_bytes = 500;
  const std::string trace = trace_of(record_run(made.schedule, made.costs, made.options));
  EXPECT_EQ(trace.find(R"("unsharded":)"), std::string::npos);
  EXPECT_NE(trace.find(R"("activations":1)"), std::string::npos);
}

TEST(ReplicaTraces, AreLeftOutOfPictures) {
  const Costs costs = [] {
    Costs made = one_replicated_stage();
    made.stages[0].reduce.bytes = 300;
    return made;
  }();
  const Schedule schedule = parse_csv("0F0,0B0,0REDUCE_GRAD\n", "r.csv");
  const auto replay = [&](const SpanSink& sink) {
    SimulationOptions options;
    options.sink = sink;
    simulate(schedule, costs, options);
  };
  const TimelinePanel panel{"", {0}, schedule.actions.lengths(), 600, replay};
  EXPECT_EQ(draw(panel, {60, false}).find("reduction"), std::string::npos);
}

// As a user has it: a schedule and costs from files, a result, a trace, that compared.
TEST(ReplicaTraces, ThroughTheCommand) {
  const testing::TemporaryFolder folder;
  write_file(folder / "s.csv", "0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n");
  write_file(
      folder / "costs.json",
      R"({"format":"pipesim-costs","version":1,"stages":[{"forward_ns":100,"backward_ns":200,)"
      R"("activation_bytes":7,"weight_bytes":30,"unshard":{"bytes":40},)"
      R"("unsharded_bytes":500,"reduce":{"bytes":60,"latency_ns":5}}],)"
      R"("collectives":{"bandwidth_bytes_per_s":1e9},"optimizer_ns":10})");
  const auto made =
      testing::pipesim({"--schedule", folder / "s.csv", "--costs", folder / "costs.json", "--json",
                        "--trace", folder / "t.json"});
  ASSERT_EQ(made.status, 0) << made.err;
  const auto json = nlohmann::json::parse(made.out);
  EXPECT_EQ(json["makespan_ns"], 40 + 300 + 65 + 10);
  const auto& rank = json["ranks"][0];
  EXPECT_EQ(rank["busy_ns"], 310);
  EXPECT_EQ(rank["bubble_ns"]["p2p"], 40 + 65);
  EXPECT_EQ(rank["memory_bytes"]["weights"], 30);
  EXPECT_EQ(rank["memory_bytes"]["unsharded"], 500);
  std::int64_t sum = 0;
  for (const auto& [key, bytes] : rank["memory_bytes"].items()) sum += bytes.get<std::int64_t>();
  EXPECT_EQ(rank["peak_memory_bytes"], sum);
  const auto compared =
      testing::pipesim({"compare", folder / "t.json", folder / "t.json", "--json"});
  ASSERT_EQ(compared.status, 0) << compared.err;
  const auto comparison = nlohmann::json::parse(compared.out);
  EXPECT_EQ(comparison["makespan_ns"]["measured"], 415);
  EXPECT_EQ(comparison["gap_ns"]["total"], 0);
  EXPECT_EQ(comparison["unmatched"]["measured"], 0);
}

// ---- Comparisons

TEST(ReplicaTraces, CompareWithThemselvesAsEqual) {
  std::mt19937_64 random(45);
  for (int i = 0; i < 300; ++i) {
    const testing::ReplicaCase made = testing::random_replicas(random);
    SCOPED_TRACE(to_csv(made.schedule) + to_json(made.costs));
    const RecordedRun run = testing::recorded(made.schedule, made.costs, "predicted", made.options);
    const Metrics metrics = simulate(made.schedule, made.costs, made.options);
    const Comparison comparison = compare(run, run);
    EXPECT_EQ(comparison.gap.terms, Gap{}.terms);
    EXPECT_TRUE(comparison.root_causes.empty());
    EXPECT_EQ(comparison.counts.matched, static_cast<std::int64_t>(run.spans.size()));
    EXPECT_EQ(comparison.sides[predicted_side].makespan_ns, metrics.makespan_ns);
    EXPECT_EQ(comparison.sides[measured_side].played.makespan_ns, metrics.makespan_ns);
    if (HasFailure()) return;
  }
}

// With another run: the terms sum to what the makespans differ by.
TEST(ReplicaTraces, CompareWithOthers) {
  std::mt19937_64 random(46);
  for (int i = 0; i < 300; ++i) {
    const testing::ReplicaCase made = testing::random_replicas(random);
    const Schedule compute = testing::random_schedule(random);
    const RecordedRun with =
        testing::recorded(made.schedule, made.costs, "predicted", made.options);
    const bool same = pick(random, 0, 1) == 0;
    const Schedule& schedule = same ? made.schedule : compute;
    Costs costs = testing::random_costs(random, schedule);
    if (same) costs = testing::random_collectives(random, schedule, costs);
    const RecordedRun other = testing::recorded(schedule, costs, "measured");
    for (const auto& [a, b] : {std::pair(&with, &other), std::pair(&other, &with)}) {
      Comparison comparison;
      try {
        comparison = compare(*a, *b);
      } catch (const Error&) {
        continue;  // nothing in common
      }
      EXPECT_EQ(comparison.gap.total_ns(), comparison.sides[measured_side].makespan_ns -
                                               comparison.sides[predicted_side].makespan_ns);
    }
  }
}

}  // namespace
}  // namespace pipesim
