// Scenes: what is in them is what the runs hold, however they are looked at.
#include "gui/scene/scene.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "gui/scene/run_times.h"
#include "gui/scene/scene_parts.h"
#include "gui/scene/shading.h"
#include "gui/tables/tables.h"
#include "sim/compare/critical_path.h"
#include "sim/schedule/shard.h"
#include "tests/events.h"
#include "tests/files.h"
#include "tests/scenes.h"
#include "traces/joining.h"
#include "traces/read/read_run.h"

namespace pipesim::gui {

namespace {

using namespace testing;

// What a random schedule does with random costs, in two iterations.
RecordedRun random_run_twice(std::mt19937_64& random) {
  const Schedule schedule = pipesim::testing::random_schedule(random);
  RecordedRun run =
      pipesim::testing::recorded(schedule, pipesim::testing::random_costs(random, schedule));
  testing::append_run(run, RecordedRun(run), pipesim::testing::pick(random, 0, 100));
  return run;
}

// Every span of every iteration is a bar of its rank's lanes, once, with its own times.
TEST(Scene, HasEverySpanOnce) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) {
    const Document document = document_of(random_run_twice(random));
    SceneOptions options;
    options.transfers = true;
    const Scene scene = build_scene(document, options);
    std::vector<int> seen(run_of(document, 0).spans.size());
    for (const Group& group : scene.groups) {
      for (const Lane& lane : group.lanes) {
        for (const Bar& bar : bars_of(lane)) {
          if (is_bubble(bar.shade)) continue;
          const Span& span = run_of(document, 0).spans[bar.ref];
          EXPECT_EQ(span.rank, group.rank);
          EXPECT_EQ(is_transfer(span.action.kind), lane.kind == LaneKind::transfers);
          ++seen[bar.ref];
          if (lane.rows.size() == RowPacker::max_rows) continue;  // may be cut
          EXPECT_EQ(bar.start_ns, span.start_ns);
          EXPECT_EQ(bar.end_ns, span.end_ns);
        }
      }
    }
    EXPECT_TRUE(std::ranges::all_of(seen, [](int times) { return times == 1; }));
  }
}

// Two stages a rank, weights gathered and gradients reduced beside what ranks compute.
RecordedRun run_of_replicas(std::int64_t bytes) {
  const Schedule schedule =
      shard(generate({"interleaved", 2, 4, 2}),
            {ReplicaSharding::Reduce::last_backward, ReplicaSharding::Gather::window, 1});
  Costs costs = pipesim::testing::costs_of(schedule.stages(), 100, 200, 10);
  for (StageCosts& stage : costs.stages) {
    stage.unshard = {10, bytes, 2};
    stage.reduce = {10, 2 * bytes, 2};
  }
  costs.collective_links.assign(2, Link{0, 1'000'000'000});
  RecordedRun run = pipesim::testing::recorded(schedule, costs);
  testing::append_run(run, RecordedRun(run), 50);
  return run;
}

// Collectives stand among the transfers; waits for them are idle times of their kind,
// and a comparison of runs that have them can be looked at.
TEST(Scene, ShowsCollectivesBesideTheWork) {
  const Document document = document_of(run_of_replicas(60), run_of_replicas(90));
  SceneOptions options;
  options.transfers = true;
  for (const Show show : {Show::stacked, Show::overlay, Show::difference}) {
    options.show = show;
    for (const Alignment alignment : {Alignment::absolute, Alignment::iteration, Alignment::slot}) {
      options.alignment = alignment;
      const Scene scene = build_scene(document, options);
      std::size_t collectives = 0;
      for (const Group& group : scene.groups) {
        for (const Lane& lane : group.lanes) {
          for (const Bar& bar : bars_of(lane)) {
            if (is_bubble(bar.shade)) continue;
            const Action& action = run_of(document, lane.trace).spans[bar.ref].action;
            EXPECT_EQ(is_communication(action), lane.kind == LaneKind::transfers);
            collectives += is_collective(action) ? 1 : 0;
          }
        }
      }
      EXPECT_EQ(collectives > 0, alignment != Alignment::slot);
    }
  }
  const RecordedRun& run = run_of(document, 0);
  const Scene scene = build_scene(document, {});
  for (std::size_t i = 0; i < run.spans.size(); ++i) {
    if (!is_collective(run.spans[i].action)) continue;
    const Table table = detail_table(document, scene, {0, static_cast<Ref>(i), false});
    for (const Table::Row& row : table.rows) EXPECT_NE(row.cells[0], "microbatch") << table.title;
  }
}

// Bubbles by rank and kind are the metrics', of iterations one after the other.
TEST(Scene, BubblesAreThoseOfMetrics) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100; ++i) {
    const Document document = document_of(random_run_twice(random));
    const Scene scene = build_scene(document, {});
    const Metrics metrics = run_of(document, 0).metrics(0);
    for (int rank = 0; rank < run_of(document, 0).ranks; ++rank) {
      std::map<Shade, std::int64_t> sums;
      for (const Bar& bar : bars_of(*lane_of(scene, rank, 0))) {
        if (is_bubble(bar.shade)) sums[bar.shade] += bar.end_ns - bar.start_ns;
      }
      const Bubble& bubble = metrics.ranks[static_cast<std::size_t>(rank)].bubble;
      EXPECT_EQ(sums[8], 2 * bubble.warmup_ns);
      EXPECT_EQ(sums[9], 2 * bubble.steady_ns);
      EXPECT_EQ(sums[10], 2 * bubble.drain_ns);
      EXPECT_EQ(sums[11], 2 * bubble.p2p_ns);
    }
  }
}

// With clocks put right the measured side's bubbles are the comparison's.
TEST(Scene, BubblesOfShiftedClocksAreTheComparisons) {
  auto [predicted, measured] = testing::perturbed("1f1b", 1);
  pipesim::testing::shift_clock(measured, 1, 5'000'000);
  const SpanIndex index(measured.spans);
  join_inputs(measured.spans, index);
  const Document document = document_of(std::move(predicted), std::move(measured));
  const Comparison& comparison = document.pair->comparison;
  ASSERT_EQ(comparison.clocks[1].ahead_ns, 5'000'000);
  const Scene scene = build_scene(document, {});
  for (int rank = 0; rank < 4; ++rank) {
    for (const Side side : both_sides) {
      const Lane& lane = *lane_of(scene, rank, side);
      std::map<Shade, std::int64_t> sums;
      for (const Bar& bar : bars_of(lane)) {
        if (is_bubble(bar.shade)) sums[bar.shade] += bar.end_ns - bar.start_ns;
      }
      const Bubble& bubble = comparison.sides[side].ranks[static_cast<std::size_t>(rank)].bubble;
      EXPECT_EQ(sums[8], bubble.warmup_ns);
      EXPECT_EQ(sums[9], bubble.steady_ns);
      EXPECT_EQ(sums[10], bubble.drain_ns);
      EXPECT_EQ(sums[11], bubble.p2p_ns);
      // Every operation stands where the comparison has it.
      for (const OperationId id :
           comparison.operations.lists[side][static_cast<std::size_t>(rank)]) {
        const auto place = find(scene, document, {side, document.pair->span_of[side][id], false});
        ASSERT_TRUE(place.has_value());
        EXPECT_EQ(place->range.from_ns, comparison.operations.sides[side][id].start_ns);
        EXPECT_EQ(place->range.to_ns, comparison.operations.sides[side][id].end_ns);
      }
    }
  }
  EXPECT_EQ(lane_of(scene, 1, 1)->offset_ns - lane_of(scene, 0, 1)->offset_ns, -5'000'000);
}

TEST(Scene, GroupsRanksWithTheLanesOfEachRun) {
  const Document document = perturbed_document();
  const Scene scene = build_scene(document, {});
  ASSERT_EQ(scene.groups.size(), 4U);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const Group& group = scene.groups[rank];
    EXPECT_EQ(group.name, "rank " + std::to_string(rank));
    ASSERT_EQ(group.lanes.size(), 2U);
    EXPECT_EQ(group.lanes[0].label, "predicted");
    EXPECT_EQ(group.lanes[1].label, "measured");
    ASSERT_EQ(group.curves.size(), 2U);
    EXPECT_TRUE(group.curves[0].bytes);
  }
  const std::int64_t longest = document.pair->comparison.sides[measured_side].makespan_ns;
  EXPECT_EQ(scene.home.from_ns, -(longest / 50));
  EXPECT_EQ(scene.home.to_ns, longest + longest / 50);
  EXPECT_LE(scene.extent.from_ns, 0);
  EXPECT_GE(scene.extent.to_ns, longest);
}

// The measurement first among the files, and a third run of fewer ranks.
TEST(Scene, PutsThePredictionFirst) {
  auto [predicted, measured] = testing::perturbed();
  Document document;
  document.traces = {testing::open_trace(std::move(measured)),
                     testing::open_trace(std::move(predicted))};
  document = compared(document, 1, 0);
  const Schedule schedule = generate(ScheduleRequest{"gpipe", 2, 4, {}, {}, {}});
  RecordedRun other =
      pipesim::testing::recorded(schedule, pipesim::testing::costs_of(2, 100, 200), "third");
  document.traces.push_back(testing::open_trace(std::move(other)));
  const Scene scene = build_scene(document, {});
  ASSERT_EQ(scene.groups.size(), 4U);
  ASSERT_EQ(scene.groups[0].lanes.size(), 3U);
  EXPECT_EQ(scene.groups[0].lanes[0].trace, 1);
  EXPECT_EQ(scene.groups[0].lanes[1].trace, 0);
  EXPECT_EQ(scene.groups[0].lanes[2].label, "third");
  EXPECT_EQ(scene.groups[3].lanes.size(), 2U);
}

TEST(Scene, SlotsArePlacesInTheList) {
  const Document document = perturbed_document("zb-h1");
  SceneOptions options;
  options.alignment = Alignment::slot;
  options.transfers = true;
  const Scene scene = build_scene(document, options);
  EXPECT_TRUE(scene.arrows.empty());
  const Operations& operations = document.pair->comparison.operations;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(scene.groups[rank].curves.empty());
    ASSERT_EQ(scene.groups[rank].lanes.size(), 2U);
    for (const Side side : both_sides) {
      const Lane& lane = scene.groups[rank].lanes[side];
      EXPECT_EQ(lane.offset_ns, 0);
      ASSERT_EQ(lane.rows.size(), 1U);
      const auto& list = operations.lists[side][rank];
      ASSERT_EQ(lane.rows[0].size(), list.size());
      for (std::size_t i = 0; i < list.size(); ++i) {
        const Bar bar = lane.rows[0][i];
        EXPECT_EQ(bar.start_ns, static_cast<std::int64_t>(i) * slot_ns);
        EXPECT_EQ(bar.end_ns, static_cast<std::int64_t>(i + 1) * slot_ns);
        Action own = run_of(document, side).spans[bar.ref].action;
        EXPECT_EQ(own, operations.actions[list[i]]);
      }
    }
  }
}

TEST(Scene, ArrowsLeadFromSendToArrival) {
  const Document document = perturbed_document("interleaved");
  const Scene scene = build_scene(document, {});
  std::multimap<std::int64_t, std::pair<std::int64_t, Ref>> expected;  // by start
  std::size_t sends = 0;
  for (int trace = 0; trace < 2; ++trace) {
    const RecordedRun& run = run_of(document, trace);
    for (const RecordedIteration& iteration : run.iterations) {
      const SpanIndex index(run.spans_of(iteration));
      for (const Span& span : run.spans_of(iteration)) {
        if (!is_send(span.action.kind)) continue;
        ++sends;
        const auto peer = index.find(peer_of(span.action));
        ASSERT_TRUE(peer.has_value());
        const Span& received = run.spans_of(iteration)[*peer];
        const auto found = std::ranges::find_if(scene.arrows, [&](const Arrow& one) {
          return one.trace == trace && one.ref == static_cast<Ref>(&span - run.spans.data());
        });
        ASSERT_TRUE(found != scene.arrows.end());
        const Arrow arrow = *found;
        const std::int64_t offset = lane_of(scene, span.rank, trace)->offset_ns;
        EXPECT_EQ(arrow.from_ns, span.start_ns + offset);
        EXPECT_EQ(arrow.to_ns, received.end_ns + offset);
        EXPECT_EQ(arrow.from_group, span.rank);
        EXPECT_EQ(arrow.to_group, received.rank);
        const Span& waits = run.spans[arrow.to_ref];
        EXPECT_EQ(waits.action.stage, received.action.stage);
        EXPECT_EQ(waits.action.microbatch, span.action.microbatch);
        EXPECT_EQ(waits.iteration, span.iteration);
        EXPECT_EQ(waits.action.kind == Kind::F, span.action.kind == Kind::SEND_F);
        EXPECT_LE(arrow.length_ns(), scene.arrows.longest_ns());
      }
    }
  }
  EXPECT_EQ(scene.arrows.size(), sends);
  EXPECT_TRUE(std::ranges::is_sorted(scene.arrows, {}, &Arrow::from_ns));
}

TEST(Scene, CurvesAndTheirPeaks) {
  Document document = perturbed_document();
  document.capacity_bytes = 1 << 30;
  const Scene scene = build_scene(document, {});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (const Side side : both_sides) {
      const CurveLane& lane = scene.groups[rank].curves[side];
      const MemoryPeak& peak = document.pair->comparison.sides[side].peaks[rank];
      EXPECT_EQ(lane.label, "memory");
      EXPECT_EQ(lane.capacity, std::int64_t{1} << 30);
      EXPECT_EQ(lane.curve.peak().value, peak.total);
      EXPECT_EQ(lane.curve.peak().time_ns, peak.time_ns);
      EXPECT_EQ(lane.peak, to_text(peak.action));
      // 1F1B: rank r holds p - r microbatches.
      EXPECT_EQ(peak.total, static_cast<std::int64_t>(4 - rank) << 20);
    }
  }
  RecordedRun chunks = testing::perturbed().measured;
  testing::add_samples(chunks, 0);
  const Document alone = document_of(std::move(chunks));
  const Scene held = build_scene(alone, {});
  ASSERT_EQ(held.groups[0].curves.size(), 1U);
  EXPECT_EQ(held.groups[0].curves[0].label, "in flight");
  EXPECT_FALSE(held.groups[0].curves[0].bytes);
  EXPECT_EQ(held.groups[0].curves[0].curve.peak().value, 4);
  EXPECT_EQ(held.groups[0].curves[0].peak, "0F3");
  EXPECT_EQ(held.groups[0].lanes[0].label, "");
}

// What does not change is recorded once.
TEST(Scene, ACurveMayHaveOnePoint) {
  RecordedRun run = testing::perturbed().measured;
  run.samples.clear();
  run.samples.push_back({0, run.iterations.front().start_ns, {}, {}, 7});
  const Document document = document_of(std::move(run));
  const Scene scene = build_scene(document, {});
  ASSERT_EQ(scene.groups[0].curves.size(), 1U);
  EXPECT_EQ(scene.groups[0].curves[0].curve.peak().value, 7);
  EXPECT_TRUE(scene.groups[1].curves.empty());
}

TEST(Scene, ErrorsBySteps) {
  EXPECT_EQ(shade_of_error(1000, 1000), 3);
  EXPECT_EQ(shade_of_error(1000, 1030), 3);
  EXPECT_EQ(shade_of_error(1000, 1031), 4);
  EXPECT_EQ(shade_of_error(1000, 1100), 4);
  EXPECT_EQ(shade_of_error(1000, 1300), 5);
  EXPECT_EQ(shade_of_error(1000, 1301), 6);
  EXPECT_EQ(shade_of_error(1000, 970), 3);
  EXPECT_EQ(shade_of_error(1000, 969), 2);
  EXPECT_EQ(shade_of_error(1000, 899), 1);
  EXPECT_EQ(shade_of_error(1000, 699), 0);
  EXPECT_EQ(shade_of_error(0, 0), 3);
  EXPECT_EQ(shade_of_error(0, 1), 6);
  EXPECT_EQ(shade_of_error(1'000'000'000'000'000, 1'030'000'000'000'000), 3);
}

TEST(Scene, ColoursOfErrorShowTheSlowStage) {
  const Document document = perturbed_document();
  SceneOptions options;
  options.colouring = Colouring::error;
  const Scene scene = build_scene(document, options);
  for (int rank = 0; rank < 4; ++rank) {
    for (const int trace : {0, 1}) {
      const RecordedRun& run = run_of(document, trace);
      for (const Bar& bar : bars_of(*lane_of(scene, rank, trace))) {
        if (is_bubble(bar.shade)) continue;
        const Action& action = run.spans[bar.ref].action;
        const bool slow = action.stage == 2 && action.kind == Kind::F;
        // 280 to 320 us on 1 ms, which is about 30 %; the others are within 2 %.
        EXPECT_EQ(bar.shade == 3, !slow) << to_text(action);
        EXPECT_EQ(bar.shade == 5 || bar.shade == 6, slow) << to_text(action);
      }
    }
  }
}

// A rank's first chunk has the full colour, its last the lightest, on a loop and on a V; where it
// has one all are full.
TEST(Scene, LaterChunksAreLighter) {
  for (const auto& [family, chunks] :
       {std::pair{"1f1b", 1}, std::pair{"interleaved", 2}, std::pair{"interleaved", 3},
        std::pair{"interleaved", 7}, std::pair{"zb-v", 2}, std::pair{"dualpipe", 2}}) {
    ScheduleRequest request{family, 4, 8, {}, {}, {}};
    if (std::string_view(family) == "interleaved") request.chunks = chunks;
    const Schedule schedule = generate(request);
    const Document document = document_of(pipesim::testing::recorded(
        schedule, pipesim::testing::costs_of(schedule.stages(), 10, 20)));
    for (const bool by_kind : {true, false}) {
      SceneOptions options;
      if (!by_kind) options.colouring = Colouring::microbatch;
      const Scene scene = build_scene(document, options);
      for (int rank = 0; rank < 4; ++rank) {
        std::map<Kind, std::map<int, std::set<Shade>>> shades;  // by stage
        for (const Bar& bar : bars_of(*lane_of(scene, rank, 0))) {
          if (is_bubble(bar.shade)) continue;
          const Action& action = run_of(document, 0).spans[bar.ref].action;
          shades[action.kind][action.stage].insert(bar.shade);
          EXPECT_TRUE(by_kind || !is_lighter(bar.shade));
        }
        if (!by_kind) continue;
        for (const auto& [kind, of_stage] : shades) {
          ASSERT_EQ(std::ssize(of_stage), chunks);
          int chunk = 0;
          for (const auto& [stage, own] : of_stage) {
            const int step = chunk == 0 ? 0 : chunk * lighter_steps / (chunks - 1);
            const int shade = first_lighter_shade + 4 * (step - 1) + shade_of(kind);
            EXPECT_EQ(own, std::set{step == 0 ? shade_of(kind) : static_cast<Shade>(shade)})
                << family << " " << chunks << " chunk " << chunk;
            for (const Shade one : own) EXPECT_EQ(full_shade(one), shade_of(kind));
            ++chunk;
          }
        }
      }
    }
  }
}

TEST(Scene, DifferenceHasLatenessByOperation) {
  const Document document = perturbed_document();
  SceneOptions options;
  options.show = Show::difference;
  const Scene scene = build_scene(document, options);
  const Comparison& comparison = document.pair->comparison;
  const Operations& operations = comparison.operations;
  const RecordedRun& run = run_of(document, 1);
  const RecordedIteration& iteration = run.iterations[run.median_iteration()];
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(scene.groups[rank].lanes.size(), 1U);
    const Lane& lane = scene.groups[rank].lanes[0];
    EXPECT_EQ(lane.kind, LaneKind::difference);
    EXPECT_EQ(lane.trace, 1);
    for (const Bar& bar : bars_of(lane)) {
      if (bar.ref == no_ref) continue;
      EXPECT_GE(bar.ref, iteration.begin);
      EXPECT_LT(bar.ref, iteration.end);
    }
    const auto late = std::ranges::find(scene.groups[rank].curves, "lateness", &CurveLane::label);
    ASSERT_NE(late, scene.groups[rank].curves.end());
    for (const OperationId id : operations.lists[measured_side][rank]) {
      const std::int64_t end_ns = operations.sides[measured_side][id].end_ns;
      EXPECT_EQ(late->curve.value_at(end_ns - late->offset_ns),
                end_ns - operations.sides[predicted_side][id].end_ns);
    }
  }
}

TEST(Scene, CriticalPathIsWhereItsOperationsAre) {
  const Document document = perturbed_document();
  for (const auto alignment : {Alignment::absolute, Alignment::iteration}) {
    SceneOptions options;
    options.alignment = alignment;
    options.critical = true;
    const Scene scene = build_scene(document, options);
    for (const Side side : both_sides) {
      std::set<Ref> expected;
      for (const OperationId id : document.pair->comparison.sides[side].played.critical_path) {
        expected.insert(document.pair->span_of[side][id]);
      }
      std::set<Ref> found;
      std::int64_t covered = 0;
      for (int rank = 0; rank < 4; ++rank) {
        for (const Bar& bar : bars_of(lane_of(scene, rank, side)->critical)) {
          EXPECT_EQ(bar.shade, critical_shade);
          found.insert(bar.ref);
          covered += bar.end_ns - bar.start_ns;
        }
      }
      EXPECT_EQ(found, expected);
      // A chain without gaps: its parts make up the makespan.
      EXPECT_EQ(covered, document.pair->comparison.sides[side].played.makespan_ns);
    }
  }
}

// By rank.
std::vector<std::vector<Bar>> critical_bars(const Document& document, int trace,
                                            Alignment alignment) {
  SceneOptions options;
  options.alignment = alignment;
  options.critical = true;
  const Scene scene = build_scene(document, options);
  std::vector<std::vector<Bar>> bars;
  for (int rank = 0; rank < run_of(document, trace).ranks; ++rank) {
    bars.push_back(bars_of(lane_of(scene, rank, trace)->critical));
  }
  return bars;
}

TEST(Scene, CriticalPathOfOneRunIsThatOfItsSide) {
  for (const char* family : {"1f1b", "gpipe", "zb-h1"}) {
    const Document both = perturbed_document(family);
    for (const Side side : both_sides) {
      const Document alone = document_of(RecordedRun(run_of(both, side)));
      for (const auto alignment : {Alignment::absolute, Alignment::slot}) {
        EXPECT_EQ(critical_bars(alone, 0, alignment), critical_bars(both, side, alignment))
            << family << ", side " << side;
      }
    }
  }
}

// However a run went, it is a chain: its parts make up the time until the last end, but for gaps,
// each starts when the one before has ended, and what waits for a transfer is on another rank.
TEST(Scene, CriticalPathOfAnyRunEndsWithIt) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 40; ++i) {
    const RecordedRun run = random_run_twice(random);
    const std::vector<PathStep> path = critical_path_of(run);
    ASSERT_FALSE(path.empty());
    const RecordedIteration& iteration = compared_iteration(run);
    std::int64_t last_ns = iteration.start_ns;
    for (const Span& span : run.spans_of(iteration)) {
      if (!is_communication(span.action)) last_ns = std::max(last_ns, span.end_ns);
    }
    EXPECT_EQ(path.back().end_ns, last_ns);
    const bool has_cells =
        std::ranges::any_of(run.spans, [](const Span& span) { return span.action.joined; });
    for (std::size_t step = 0; step < path.size(); ++step) {
      const Span& span = run.spans[path[step].span];
      EXPECT_EQ(path[step].transfers, is_transfer(span.action.kind));
      // Of a cell the backward is all the work.
      if (!path[step].transfers && !has_cells) {
        EXPECT_EQ(path[step].start_ns, span.start_ns);
        EXPECT_EQ(path[step].end_ns, span.end_ns);
        EXPECT_EQ(path[step].rank, span.rank);
      }
      if (step > 0) {
        EXPECT_LE(path[step - 1].end_ns, path[step].end_ns);
      }
    }
  }
}

TEST(Scene, CriticalPathIsThereOnlyWhereItIsAskedFor) {
  const Document document = document_of(testing::perturbed().predicted);
  Scene scene = build_scene(document, {});
  EXPECT_TRUE(lane_of(scene, 0, 0)->critical.empty());
  SceneOptions options;
  options.critical = true;
  change_scene(scene, document, options);
  EXPECT_FALSE(lane_of(scene, 0, 0)->critical.empty());
}

TEST(Scene, EventTracesAreTracks) {
  Document document;
  document.traces = {testing::open_trace(testing::events())};
  const Scene scene = build_scene(document, {});
  ASSERT_EQ(scene.groups.size(), 3U);
  EXPECT_EQ(scene.groups[0].name, "thread 7");
  EXPECT_EQ(scene.groups[0].process, "python 1");
  EXPECT_EQ(scene.groups[2].name, "load");
  const Lane& lane = scene.groups[0].lanes.at(0);
  ASSERT_EQ(lane.rows.size(), 2U);
  EXPECT_EQ(lane.rows[0].size(), 1U);
  ASSERT_EQ(lane.rows[1].size(), 2U);
  // Names that differ in a number are alike.
  EXPECT_EQ(lane.rows[1][0].shade, lane.rows[1][1].shade);
  EXPECT_EQ(lane.offset_ns, -500) << "the first of all is a sample";
  EXPECT_EQ(scene.extent, (TimeRange{0, 19500}));
  ASSERT_EQ(scene.arrows.size(), 1U);
  EXPECT_EQ(scene.arrows[0].from_ns, 5500);
  EXPECT_EQ(scene.arrows[0].to_ns, 5500);
  EXPECT_EQ(scene.arrows[0].to_group, 1);
  ASSERT_EQ(scene.groups[1].curves.size(), 1U);
  EXPECT_TRUE(scene.groups[1].curves[0].bytes);
  EXPECT_EQ(scene.groups[1].curves[0].curve.peak().value, 20);
  for (Ref ref = 0; ref < 4; ++ref) {
    const auto place = find(scene, document, {0, ref, false});
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->range.from_ns, testing::events().slices[ref].start_ns - 500);
  }
}

// More at once than there are rows: all are there, none overlaps.
TEST(Scene, CutsWhatHasNoRoom) {
  RecordedRun run;
  run.name = "crowd";
  run.ranks = 1;
  run.microbatches = 20;
  run.chunk_of_stage = {0};
  run.about.rank_of_stage = {0};
  for (int i = 0; i < 20; ++i) {
    Span span{make_action(0, Kind::F, i), 0, 0, 10 * i, 10 * i + 1000};
    run.spans.push_back(span);
  }
  run.iterations = {{0, 0, 20, 0, 1190}};
  const Document document = document_of(std::move(run));
  const Scene scene = build_scene(document, {});
  const Lane& lane = scene.groups[0].lanes[0];
  EXPECT_EQ(lane.rows.size(), 4U);
  EXPECT_EQ(bars_of(lane).size(), 20U);
  for (Ref ref = 0; ref < 20; ++ref) {
    EXPECT_TRUE(find(scene, document, {0, ref, false}).has_value());
  }
  EXPECT_EQ(scene.extent, (TimeRange{0, 1190}));
}

// Two ranks, a stage each, and nothing done yet.
RecordedRun run_of_two_ranks(const std::string& name) {
  RecordedRun run;
  run.name = name;
  run.ranks = 2;
  run.microbatches = 1;
  run.chunk_of_stage = {0, 0};
  run.about.rank_of_stage = {0, 1};
  return run;
}
// Adds forwards of microbatch 0 to it.
auto forwards_to(RecordedRun& run) {
  return [&run](int stage, int iteration, std::int64_t start, std::int64_t end) {
    run.spans.push_back({make_action(stage, Kind::F, 0), stage, iteration, start, end});
  };
}

// The second iteration starts on one rank while the first ends on the other: work goes
// before idle time, and no bar covers another.
TEST(Scene, IterationsThatOverlap) {
  RecordedRun run = run_of_two_ranks("overlap");
  const auto add = forwards_to(run);
  add(0, 0, 0, 10);
  add(1, 0, 5, 25);
  add(0, 1, 12, 20);
  add(1, 1, 25, 40);
  run.iterations = {{0, 0, 2, 0, 25}, {1, 2, 4, 12, 28}};
  const Scene scene = build_scene(document_of(std::move(run)), {});
  const Shade warmup = shade_of(BubbleKind::warmup);
  const Shade drain = shade_of(BubbleKind::drain);
  ASSERT_EQ(scene.groups[0].lanes[0].rows.size(), 1U);
  EXPECT_EQ(bars_of(scene.groups[0].lanes[0]),
            (std::vector<Bar>{
                {0, 10, 0, 0}, {10, 12, no_ref, drain}, {12, 20, 2, 0}, {20, 40, no_ref, drain}}));
  ASSERT_EQ(scene.groups[1].lanes[0].rows.size(), 1U);
  EXPECT_EQ(bars_of(scene.groups[1].lanes[0]),
            (std::vector<Bar>{{0, 5, 1, warmup}, {5, 25, 1, 0}, {25, 40, 3, 0}}));
}

// Other work covers the start of idle time: what is left of it stays on the first row.
TEST(Scene, IdleTimeTakesNoSecondRow) {
  RecordedRun run = run_of_two_ranks("covered");
  const auto add = forwards_to(run);
  add(0, 0, 0, 10);
  add(1, 0, 10, 40);
  add(0, 1, 20, 60);
  add(1, 1, 35, 38);  // while the first iteration's still runs
  add(0, 2, 50, 55);
  add(1, 2, 90, 100);
  run.iterations = {{0, 0, 2, 0, 40}, {1, 2, 4, 20, 40}, {2, 4, 6, 50, 50}};
  const Scene scene = build_scene(document_of(std::move(run)), {});
  int second_rows = 0;
  bool idle = false;
  for (const Group& group : scene.groups) {
    const auto& rows = group.lanes.at(0).rows;
    for (const Bar& bar : bars_of(rows.front())) idle = idle || is_bubble(bar.shade);
    for (std::size_t row = 1; row < rows.size(); ++row) {
      ++second_rows;
      for (const Bar& bar : bars_of(rows[row])) EXPECT_FALSE(is_bubble(bar.shade));
    }
  }
  EXPECT_TRUE(idle);
  EXPECT_EQ(second_rows, 2);
}

TEST(Scene, OfNothingIsEmpty) {
  const Scene scene = build_scene({}, {});
  EXPECT_TRUE(scene.groups.empty());
  EXPECT_EQ(scene.extent, TimeRange{});
}

TEST(Scene, OfRecordedRuns) {
  for (const char* name : {"1f1b", "interleaved", "zb-h1", "gpipe"}) {
    const std::string path = pipesim::testing::source_file(std::string("traces/recorded/") + name);
    const Document document =
        document_of(read_run({path + ".rank0.json.gz", path + ".rank1.json.gz"}));
    const Scene scene = build_scene(document, {});
    ASSERT_EQ(scene.groups.size(), 2U);
    const RecordedRun& run = run_of(document, 0);
    std::size_t bars = 0;
    for (const Group& group : scene.groups) {
      for (const Bar& bar : bars_of(group.lanes.at(0))) bars += is_bubble(bar.shade) ? 0 : 1;
    }
    EXPECT_EQ(bars, static_cast<std::size_t>(std::ranges::count_if(run.spans, [](const Span& span) {
                return !is_transfer(span.action.kind);
              })));
  }
}

}  // namespace
}  // namespace pipesim::gui
