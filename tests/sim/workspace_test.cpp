// What a backward takes while it runs, such as activations that it computes again.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/cost/stage_sum.h"
#include "sim/engine/record_run.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using testing::costs_of;
using testing::pick;

// F, then a backward that takes 500 beside the 1,000 that F left.
TEST(Workspace, IsThereWhileABackwardRuns) {
  Costs costs = costs_of(1, 100, 200);
  costs.stages[0].activation_bytes = 1000;
  costs.stages[0].workspace_bytes = 500;
  for (const bool by_events : {false, true}) {
    SimulationOptions options;
    options.always_by_events = by_events;
    const Metrics metrics = simulate(generate({"gpipe", 1, 3}), costs, options);
    const MemoryPeak& peak = metrics.ranks[0].peak_memory;
    EXPECT_EQ(peak.total, 3500);
    EXPECT_EQ(peak.bytes.workspace, 500);
    EXPECT_EQ(to_text(peak.action), "0B0");
    EXPECT_EQ(peak.time_ns, 300);
    EXPECT_EQ(metrics.ranks[0].peak_activation_bytes, 3000) << "workspace is no activation";
  }
}

// A stage's is that of the layer with which most is held: they run one after the other, and a
// backward has let go of what later layers kept.
TEST(Workspace, OfLayersTheMostCounts) {
  const CostsFile file = parse_costs(R"({"format":"pipesim-costs","version":1,"layers":[)"
                                     R"({"forward_ns":1,"backward_ns":2,"workspace_bytes":7},)"
                                     R"({"forward_ns":1,"backward_ns":2,"workspace_bytes":30},)"
                                     R"({"forward_ns":1,"backward_ns":2}]})",
                                     "layers.json");
  const Costs costs = file.resolve(Placement::loop(2, 1), std::vector<int>{2, 1});
  EXPECT_EQ(costs.stages[0].workspace_bytes, 30);
  EXPECT_EQ(costs.stages[1].workspace_bytes, 0);
  EXPECT_EQ(parse_costs(to_json(costs), "again.json").costs.stages, costs.stages);
  const auto of_two = [](int first, int kept_by_second, int second) {
    StageSum sum("two layers", "");
    StageCosts layer;
    layer.activation_bytes = 5;
    layer.workspace_bytes = first;
    sum.add(layer);
    layer.activation_bytes = kept_by_second;
    layer.workspace_bytes = second;
    sum.add(layer);
    return sum.costs().workspace_bytes;
  };
  EXPECT_EQ(of_two(30, 8, 10), 22);
  EXPECT_EQ(of_two(30, 25, 10), 10);
  EXPECT_EQ(of_two(30, 40, 0), 0);
}

// The most of any instant, from the spans alone.
std::vector<std::int64_t> peaks_of(const RecordedRun& timeline, const Costs& costs, int ranks) {
  struct Change {
    std::int64_t time_ns;
    int order;  // what ends comes before what starts
    std::int64_t bytes;
    auto operator<=>(const Change&) const = default;
  };
  std::vector<std::vector<Change>> changes(static_cast<std::size_t>(ranks));
  for (const Span& span : timeline.spans) {
    auto& own = changes[static_cast<std::size_t>(span.rank)];
    const StageCosts& stage = costs.stages[static_cast<std::size_t>(span.action.stage)];
    const auto holds = [&](std::int64_t from, std::int64_t bytes) {
      own.push_back({from, 1, bytes});
    };
    const auto frees = [&](std::int64_t bytes) { own.push_back({span.end_ns, 0, -bytes}); };
    switch (span.action.kind) {
      case Kind::F: holds(span.start_ns, stage.activation_bytes); break;
      case Kind::W: frees(stage.weight_residue_bytes); break;
      case Kind::I: holds(span.end_ns, stage.weight_residue_bytes); [[fallthrough]];
      case Kind::B:
        frees(stage.activation_bytes + stage.workspace_bytes);
        holds(span.start_ns, stage.workspace_bytes);
        break;
      default: break;
    }
  }
  std::vector<std::int64_t> peaks;
  for (auto& own : changes) {
    std::ranges::sort(own);
    std::int64_t now = 0;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      now += own[i].bytes;
      most = std::max(most, now);
    }
    peaks.push_back(most);
  }
  return peaks;
}

TEST(Workspace, PeaksAsTheSpansSay) {
  std::mt19937_64 random(7);
  int with_workspace = 0;
  for (int i = 0; i < 1000; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    Costs costs = testing::random_costs(random, schedule);
    for (StageCosts& stage : costs.stages) {
      stage.output_bytes = 0;
      stage.workspace_bytes = pick(random, 0, 1) * pick(random, 0, 150);
      // Actions that take no time would fill memory in no instant.
      for (const auto time : {&StageCosts::forward_ns, &StageCosts::backward_input_ns,
                              &StageCosts::backward_weight_ns}) {
        stage.*time += 1;
      }
      if (stage.overlap_ns) *stage.overlap_ns += 1;
    }
    for (const bool by_events : {false, true}) {
      SimulationOptions options;
      options.always_by_events = by_events;
      const Metrics metrics = simulate(schedule, costs, options);
      const std::vector<std::int64_t> peaks =
          peaks_of(record_run(schedule, costs, options), costs, schedule.ranks());
      for (std::size_t r = 0; r < peaks.size(); ++r) {
        ASSERT_EQ(metrics.ranks[r].peak_memory.total, peaks[r]) << "case " << i;
        with_workspace += metrics.ranks[r].peak_memory.bytes.workspace > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(with_workspace, 1000);
}

}  // namespace
}  // namespace pipesim
