// Costs from recorded runs: what a prediction was made with comes back from its
// trace; what was measured is estimated robustly; costs.json takes it all along.
#include "sim/calibrate/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "exec/model/layer.h"
#include "sim/calibrate/samples.h"
#include "sim/engine/prediction.h"
#include "sim/engine/record_run.h"
#include "sim/flags/schedule_choice.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/lower.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/local_run.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/chrome_writer.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

Schedule schedule_of(const std::string& name, int stages, int microbatches) {
  ScheduleFlags flags;
  flags.schedule = name;
  flags.stages = std::to_string(stages);
  flags.microbatches = std::to_string(microbatches);
  return choose_schedule(flags, {}).schedule;
}

// A prediction as its trace tells it.
RecordedRun predicted_run(const Schedule& schedule, const Costs& costs,
                          const std::string& name = "p.json") {
  const testing::TemporaryFolder folder;
  OutputFile file(folder / name);
  const Prediction prediction = predict(schedule, costs, nullptr, {});
  write_chrome_trace(record_run(schedule, costs), file);
  file.commit();
  RecordedRun run = read_run({folder / name});
  run.name = name;
  return run;
}

// The same as if it had been measured: ranks come to an action when they are
// done with the one before.
RecordedRun as_measured(RecordedRun run) {
  run.about.source = Source::measured;
  std::map<std::pair<int, int>, std::int64_t> free_ns;  // by iteration and rank
  for (Span& span : run.spans) {
    if (!is_compute(span.action.kind)) continue;
    std::int64_t& since = free_ns[{span.iteration, span.rank}];
    span.queued_ns = span.start_ns - std::min(since, span.start_ns);
    since = span.end_ns;
  }
  return run;
}

CostsFile costs_from(const RecordedRun& run) { return calibrate({&run, 1}).costs; }

std::vector<std::tuple<std::string, int, std::int64_t, std::int64_t>> times_of(
    const Schedule& schedule, const Costs& costs) {
  std::vector<std::tuple<std::string, int, std::int64_t, std::int64_t>> result;
  for (const Span& span : record_run(schedule, costs).spans) {
    result.emplace_back(to_text(span.action), span.rank, span.start_ns, span.end_ns);
  }
  std::ranges::sort(result);  // at one instant, as it may be
  return result;
}

// What is done alone, and in which kinds, on a stage.
struct StageKinds {
  bool forward = false, whole = false, input = false, weight = false;
};
std::vector<StageKinds> kinds_done_alone(const Schedule& schedule) {
  std::vector<StageKinds> result(static_cast<std::size_t>(schedule.stages()));
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    bool joined = false;
    for (const Action& action : schedule.actions[rank]) {
      const bool alone = !joined && !action.joined;
      joined = action.joined;
      if (!alone || !is_compute(action.kind)) continue;
      StageKinds& stage = result[static_cast<std::size_t>(action.stage)];
      (action.kind == Kind::F   ? stage.forward
       : action.kind == Kind::B ? stage.whole
       : action.kind == Kind::I ? stage.input
                                : stage.weight) = true;
    }
  }
  return result;
}

TEST(Samples, TheTypicalIsTheMeanOfTheMiddle) {
  Samples samples;
  EXPECT_EQ(samples.typical(), 0);
  for (const int value : {10, 20}) samples.add(value);
  EXPECT_EQ(samples.typical(), 15);
  samples.add(90);
  EXPECT_EQ(samples.typical(), 20) << "of three the one in the middle";
  Samples many;
  for (int i = 1; i <= 20; ++i) many.add(i == 20 ? 1'000'000 : i);
  EXPECT_EQ(many.typical(), 10.5);
  EXPECT_EQ(many.quantile(0.1), 2);
  EXPECT_EQ(many.quantile(0.5), 10);
  EXPECT_EQ(many.spread(), (Spread{20, 2, 18}));
}

// An iteration of which only the closing work was kept says what that took.
TEST(Calibration, AnIterationWithoutComputeGivesNoNonsense) {
  const Schedule schedule = schedule_of("1f1b", 2, 4);
  Costs costs = testing::costs_of(2, 1'000'000, 2'000'000);
  costs.reduce_gradients_ns = {300'000, 300'000};
  costs.optimizer_ns = {200'000, 200'000};
  RecordedRun run = as_measured(predicted_run(schedule, costs));
  RecordedIteration bare = run.iterations.front();
  const std::size_t first = run.spans.size();
  for (std::size_t i = bare.begin; i < bare.end; ++i) {
    Span span = run.spans[i];
    if (span.action.kind != Kind::REDUCE_GRAD && span.action.kind != Kind::OPTIMIZER) continue;
    span.iteration = 1;
    run.spans.push_back(span);
  }
  bare.number = 1;
  bare.begin = first;
  bare.end = run.spans.size();
  const IterationExtent extent = extent_of(run.spans_of(bare));
  bare.start_ns = extent.start_ns;
  bare.makespan_ns = extent.makespan_ns;
  run.iterations.push_back(bare);
  const Calibration calibration = calibrate({&run, 1});
  ASSERT_TRUE(calibration.costs.reduce_gradients_ns && calibration.costs.optimizer_ns);
  EXPECT_EQ(*calibration.costs.reduce_gradients_ns, 300'000);
  EXPECT_EQ(*calibration.costs.optimizer_ns, 200'000);
}

// Each is within what a trace may say, but not what is made of them.
TEST(Calibration, GivesNoCostsThatCannotBeRead) {
  const Schedule schedule = schedule_of("1f1b", 2, 4);
  Costs costs = testing::costs_of(2, 1'000'000, 2'000'000);
  costs.optimizer_ns = {max_time_ns * 6 / 10, max_time_ns * 6 / 10};
  RecordedRun run = as_measured(predicted_run(schedule, costs, "long.json"));
  Span more = run.spans.back();
  ASSERT_EQ(more.action.kind, Kind::OPTIMIZER);
  run.spans.push_back(more);
  run.iterations.back().end = run.spans.size();
  const std::string error = testing::input_error_of([&] { costs_from(run); });
  EXPECT_TRUE(error.starts_with("long.json: ")) << error;
  EXPECT_NE(error.find("optimizer_ns"), std::string::npos) << error;
}

// Any prediction, calibrated: simulated with the costs that come back, the same
// schedule takes the same times, and so does any other order of what was told.
TEST(Calibration, OfAPredictionGivesItsCosts) {
  std::mt19937_64 random(41);
  int told = 0;
  int exchanged = 0;
  for (int i = 0; i < 300; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    Costs costs = testing::random_costs(random, schedule);
    testing::take_time(costs);
    // Edges differ in latency, so sizes must not: either could explain times.
    for (StageCosts& stage : costs.stages) stage.output_bytes = costs.stages[0].output_bytes;
    const auto kinds = kinds_done_alone(schedule);
    const bool all_told = std::ranges::all_of(kinds, [](const StageKinds& stage) {
      return stage.forward && stage.input && stage.weight;
    });
    if (!all_told) continue;
    ++told;
    SCOPED_TRACE(to_json(costs));
    const RecordedRun predicted = predicted_run(schedule, costs);
    for (const RecordedRun& run : {predicted, as_measured(predicted)}) {
      const CostsFile file = costs_from(run);
      ASSERT_EQ(file.costs.stages.size(), costs.stages.size());
      for (std::size_t s = 0; s < costs.stages.size(); ++s) {
        EXPECT_EQ(file.costs.stages[s].forward_ns, costs.stages[s].forward_ns) << s;
        EXPECT_EQ(file.costs.stages[s].backward_input_ns, costs.stages[s].backward_input_ns) << s;
        EXPECT_EQ(file.costs.stages[s].backward_weight_ns, costs.stages[s].backward_weight_ns) << s;
      }
      EXPECT_EQ(file.receive_ns, 0);
      if (run.about.source == Source::measured) continue;  // few messages may be awaited
      for (std::size_t s = 0; s < costs.stages.size(); ++s) {
        EXPECT_EQ(file.costs.stages[s].activation_bytes, costs.stages[s].activation_bytes);
        EXPECT_EQ(file.costs.stages[s].weight_residue_bytes, costs.stages[s].weight_residue_bytes);
        EXPECT_EQ(file.costs.stages[s].output_bytes, costs.stages[s].output_bytes);
      }
      const Costs again = file.resolve(schedule.placement, std::nullopt);
      EXPECT_EQ(times_of(schedule, again), times_of(schedule, costs));
      exchanged += file.calibration->transfers.has_value();
      Schedule other = lower(schedule);
      testing::shuffle(other, random);
      if (find_deadlock(other, SendMode::buffered)) continue;
      Costs alone = costs;  // cells may have come apart
      Costs alone_again = again;
      for (auto* both : {&alone, &alone_again}) {
        for (StageCosts& stage : both->stages) stage.overlap_ns.reset();
      }
      EXPECT_EQ(times_of(other, alone_again), times_of(other, alone));
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(told, 40);
  EXPECT_GT(exchanged, 30);
}

// A profile knows neither bytes nor when a rank came to an action.
TEST(Calibration, OfAProfile) {
  const Costs costs = testing::costs_of(3, 1'000'000, 2'400'000, 30'000);
  RecordedRun run = predicted_run(schedule_of("1f1b", 3, 6), costs);
  run.about.source = Source::profiled;
  run.about.costs_json.clear();
  run.samples.clear();
  const CostsFile file = costs_from(run);
  for (int s = 0; s < 3; ++s) {
    EXPECT_EQ(file.costs.stages[static_cast<std::size_t>(s)], costs.stages[0]) << s;
  }
  EXPECT_EQ(file.costs.p2p, costs.p2p);
  const auto& notes = file.calibration->notes;
  const auto says = [&](const std::string& start) {
    return std::ranges::any_of(notes, [&](const auto& note) { return note.starts_with(start); });
  };
  EXPECT_TRUE(says("memory: "));
  EXPECT_TRUE(says("I and W: "));
}

// Latency, bandwidth and an edge that differs, from messages of several sizes.
TEST(Calibration, TellsLatencyFromBandwidth) {
  Costs costs = testing::costs_of(4, 1'000'000, 2'000'000, 7'000);
  for (std::size_t s = 0; s < 3; ++s) {
    costs.stages[s].output_bytes = 1000 + 3000 * static_cast<std::int64_t>(s);
  }
  costs.p2p.bytes_per_second = 500'000'000;  // 2 ns a byte
  const Schedule schedule = schedule_of("zb-h1", 4, 8);
  const CostsFile file = costs_from(predicted_run(schedule, costs));
  EXPECT_EQ(file.costs.p2p, costs.p2p);
  EXPECT_TRUE(file.costs.edges.empty());
  EXPECT_TRUE(std::ranges::none_of(
      file.calibration->notes, [](const std::string& note) { return note.starts_with("p2p"); }));

  // Two chunks a rank: each edge has several sizes.
  const Schedule looped = schedule_of("interleaved", 2, 4);
  Costs uneven = testing::costs_of(4, 1'000'000, 2'000'000, 7'000);
  uneven.stages = costs.stages;
  uneven.p2p = costs.p2p;
  uneven.edges[{1, 0}] = {90'000, 500'000'000};
  const CostsFile two = costs_from(predicted_run(looped, uneven));
  EXPECT_EQ(two.resolve(looped.placement, std::nullopt).link(1, 0), uneven.link(1, 0));
  EXPECT_EQ(two.resolve(looped.placement, std::nullopt).link(0, 1), uneven.link(0, 1));

  // One size only: all of it is latency, and that is said.
  for (StageCosts& stage : costs.stages) stage.output_bytes = 1000;
  const CostsFile one = costs_from(predicted_run(schedule, costs));
  EXPECT_EQ(one.costs.p2p, (Link{9'000, std::nullopt}));
  EXPECT_NE(one.calibration->notes.at(0).find("latency can't be told from bandwidth"),
            std::string::npos);
}

// Of a measurement only messages that were awaited tell what a message takes.
TEST(Calibration, CountsMessagesThatWereAwaited) {
  Costs costs = testing::costs_of(2, 1'000'000, 2'000'000, 7'000);
  RecordedRun run = as_measured(predicted_run(schedule_of("1f1b", 2, 8), costs));
  // A rank that is busy sees arrivals late.
  int late = 0;
  for (Span& span : run.spans) {
    if (!is_receive(span.action.kind)) continue;
    const auto consumer = std::ranges::find_if(run.spans, [&](const Span& other) {
      return other.rank == span.rank && other.action.stage == span.action.stage &&
             other.action.microbatch == span.action.microbatch &&
             (span.action.kind == Kind::RECV_F ? other.action.kind == Kind::F
                                               : is_backward(other.action.kind));
    });
    ASSERT_NE(consumer, run.spans.end());
    if (consumer->queued_ns > 0) continue;
    span.end_ns = consumer->start_ns;
    ++late;
  }
  EXPECT_GT(late, 0);
  EXPECT_EQ(costs_from(run).costs.p2p.latency_ns, 7'000);
}

// One in twelve samples of a time is twenty times as long, or nothing at all.
TEST(Calibration, FewOutliersMoveNothing) {
  std::mt19937_64 random(5);
  Costs costs = testing::costs_of(2, 1'000'000, 2'000'000);
  costs.stages[1].forward_ns = 1'300'000;
  const RecordedRun run = predicted_run(schedule_of("zb-h1", 2, 48), costs);
  for (const int factor : {20, 0}) {
    RecordedRun noisy = run;
    std::map<std::pair<int, Kind>, int> seen;
    int outliers = 0;
    for (Span& span : noisy.spans) {
      if (!is_compute(span.action.kind)) continue;
      if (seen[{span.action.stage, span.action.kind}]++ % 12 != 11) continue;
      span.end_ns = span.start_ns + factor * (span.end_ns - span.start_ns);
      ++outliers;
    }
    EXPECT_EQ(outliers, 24);
    const CostsFile file = costs_from(noisy);
    EXPECT_EQ(file.costs.stages[0].forward_ns, 1'000'000);
    EXPECT_EQ(file.costs.stages[1].forward_ns, 1'300'000);
    EXPECT_EQ(file.costs.stages[1].backward_input_ns, 1'000'000);
    EXPECT_EQ(file.costs.stages[1].backward_weight_ns, 1'000'000);
  }
}

// Closing work: one number where ranks are alike, else one per rank; measured, it
// has what ranks take from when all are through, and no waiting for the slower.
TEST(Calibration, ClosingWork) {
  const Schedule schedule = schedule_of("gpipe", 2, 4);
  Costs costs = testing::costs_of(2, 1000, 2000);
  costs.optimizer_ns = {500, 500};
  costs.reduce_gradients_ns = {70, 90};
  const CostsFile file = costs_from(predicted_run(schedule, costs));
  EXPECT_EQ(file.optimizer_ns, 500);
  EXPECT_TRUE(file.costs.optimizer_ns.empty());
  EXPECT_EQ(file.costs.reduce_gradients_ns, costs.reduce_gradients_ns);
  EXPECT_FALSE(file.reduce_gradients_ns.has_value());

  // Rank 1 is through at 13,000, rank 0 at 15,000. Both reduce once they are;
  // the norm is there at 15,100, and both step from then on.
  RecordedRun run = as_measured(predicted_run(schedule, costs));
  const auto find = [&](Kind kind, int rank) -> Span& {
    return *std::ranges::find_if(
        run.spans, [&](const Span& span) { return span.action.kind == kind && span.rank == rank; });
  };
  ASSERT_EQ(find(Kind::REDUCE_GRAD, 0).start_ns, 15'000);
  ASSERT_EQ(find(Kind::REDUCE_GRAD, 1).start_ns, 13'000);
  for (const int rank : {0, 1}) {
    find(Kind::OPTIMIZER, rank).start_ns = 15'100;
    find(Kind::OPTIMIZER, rank).end_ns = 15'600;
  }
  const CostsFile measured = costs_from(run);
  EXPECT_EQ(measured.optimizer_ns, 530) << "30 ns after the last reduction";
  EXPECT_EQ(measured.reduce_gradients_ns, 80) << "20 ns are less than 0.5 % of the iteration";
}

// A run of two stages of two layers each, by hand: what layers take, what their
// actions take beside, what a message costs, forwards that are computed again.
// `slow_ns`: what each F on rank 1 takes beside that, and a B twice.
RecordedRun layered_run(bool recomputes, std::int64_t slow_ns = 0) {
  RecordedRun run;
  run.name = "layers.json";
  run.ranks = 2;
  run.microbatches = 16;
  run.chunk_of_stage = {0, 0};
  run.about.source = Source::measured;
  run.about.rank_of_stage = {0, 1};
  run.about.layers = {"embedding", "block 0", "block 1", "head"};
  run.about.layout = {2, 2};
  // F of a layer takes 100 (l + 1), I twice, W three times that.
  const auto unit = [](int layer) { return std::int64_t{100} * (layer + 1); };
  std::int64_t now[2] = {0, 50'000'000};
  const auto add_layer = [&](int rank, const Action& action, int layer, Kind kind, bool again) {
    const std::int64_t times = kind == Kind::F ? 1 : (kind == Kind::I ? 2 : 3);
    const std::int64_t start = now[rank];
    now[rank] += times * unit(layer);
    run.layers.push_back({rank, 0, layer, kind, again, action, start, now[rank]});
  };
  const auto add = [&](int rank, Kind kind, int microbatch, bool receives) {
    const Action action = make_action(rank, kind, microbatch);
    Span span;
    span.action = action;
    span.rank = rank;
    span.start_ns = now[rank];
    const int first = 2 * rank;
    if (kind == Kind::F || recomputes) {
      for (const int layer : {first, first + 1}) {
        add_layer(rank, action, layer, Kind::F, kind != Kind::F);
      }
    }
    for (const int layer : {first + 1, first}) {
      if (kind == Kind::F) break;
      add_layer(rank, action, layer, Kind::I, false);
      add_layer(rank, action, layer, Kind::W, false);
    }
    now[rank] += kind == Kind::F ? 20 : 40;  // besides its layers
    if (rank == 1) now[rank] += kind == Kind::F ? slow_ns : 2 * slow_ns;
    if (receives) {
      now[rank] += 70;
      Span receive;
      receive.action = make_action(rank, rank == 1 ? Kind::RECV_F : Kind::RECV_B, microbatch);
      receive.rank = rank;
      receive.start_ns = span.start_ns + 5;
      receive.end_ns = span.start_ns + 90;
      receive.bytes = 4096;
      Span send = receive;
      send.action = peer_of(receive.action);
      send.rank = 1 - rank;
      run.spans.push_back(send);
      run.spans.push_back(receive);
    }
    span.end_ns = now[rank];
    run.spans.push_back(span);
  };
  for (const int rank : {0, 1}) {
    for (int mb = 0; mb < run.microbatches; ++mb) add(rank, Kind::F, mb, rank == 1 && mb % 2 == 0);
    for (int mb = 0; mb < run.microbatches; ++mb) add(rank, Kind::B, mb, rank == 0 && mb % 2 == 0);
  }
  std::ranges::stable_sort(run.spans, {},
                           [](const Span& s) { return std::pair(s.start_ns, s.rank); });
  std::ranges::stable_sort(run.layers, {},
                           [](const LayerSpan& s) { return std::pair(s.start_ns, s.rank); });
  run.iterations = {{0, 0, run.spans.size(), 0, 100'000'000}};
  return run;
}

TEST(Calibration, ByLayer) {
  for (const bool recomputes : {false, true}) {
    const CostsFile file = costs_from(layered_run(recomputes));
    ASSERT_EQ(file.layers.size(), 4U);
    EXPECT_TRUE(file.costs.stages.empty());
    EXPECT_EQ(file.receive_ns, 70);
    for (std::size_t l = 0; l < 4; ++l) {
      const std::int64_t unit = 100 * (static_cast<std::int64_t>(l) + 1);
      // 20 ns besides the two layers of an F, 40 besides those of a B.
      EXPECT_EQ(file.layers[l].forward_ns, unit + 10);
      EXPECT_EQ(file.layers[l].backward_input_ns, (recomputes ? 3 : 2) * unit + 10);
      EXPECT_EQ(file.layers[l].backward_weight_ns, 3 * unit + 10);
    }
    EXPECT_EQ(file.calibration->entries[1].name, "block 0");
    EXPECT_EQ(file.calibration->entries[1].forward, (Spread{15, 210, 210})) << "as the time";
    EXPECT_EQ(file.layers[1].output_bytes, 4096);
    EXPECT_EQ(file.layers[0].output_bytes, 4096) << "as the nearest that was sent";
    EXPECT_EQ(file.layers[3].output_bytes, 0);

    // Laid out otherwise, a message is part of what needs it.
    const Costs costs = file.resolve(Placement::loop(4, 1), std::nullopt);
    EXPECT_EQ(costs.stages[0].duration_ns(Kind::F), 110);
    EXPECT_EQ(costs.stages[1].duration_ns(Kind::F), 210 + 70);
    EXPECT_EQ(costs.stages[3].duration_ns(Kind::I), (recomputes ? 3 : 2) * 400 + 10);
    EXPECT_EQ(costs.stages[2].duration_ns(Kind::I), (recomputes ? 3 : 2) * 300 + 10 + 70);
    const Costs one = file.resolve(Placement::loop(1, 4), std::nullopt);
    EXPECT_EQ(one.stages[1].duration_ns(Kind::F), 210) << "nothing is sent";
  }
}

// Time outside layers is that of the stage that takes it; of two runs a layer has the mean.
TEST(Calibration, LayersOfASlowStageAreSlow) {
  for (const bool twice : {false, true}) {
    const RecordedRun slow = layered_run(false, 1000);
    std::vector<RecordedRun> runs{slow};
    if (twice) runs.push_back(layered_run(false));
    const CostsFile file = calibrate(runs).costs;
    for (std::size_t l = 0; l < 4; ++l) {
      const std::int64_t unit = 100 * (static_cast<std::int64_t>(l) + 1);
      const std::int64_t more = l < 2 ? 0 : (twice ? 250 : 500);
      EXPECT_EQ(file.layers[l].forward_ns, unit + 10 + more);
      EXPECT_EQ(file.layers[l].backward_input_ns, 2 * unit + 10 + more);
      EXPECT_EQ(file.layers[l].backward_weight_ns, 3 * unit + 10 + more);
    }
  }
}

TEST(Calibration, MoreRunsAreMoreSamples) {
  Costs costs = testing::costs_of(3, 1'000'000, 2'000'000, 9'000);
  const RecordedRun a = predicted_run(schedule_of("gpipe", 3, 4), costs, "a.json");
  costs.stages[1].backward_input_ns = 700'000;
  costs.stages[1].backward_weight_ns = 1'300'000;
  const RecordedRun b = predicted_run(schedule_of("zb-h1", 3, 6), costs, "b.json");
  const std::vector<RecordedRun> both{a, b};
  const CostsFile file = calibrate(both).costs;
  EXPECT_EQ(file.calibration->from, (std::vector<std::string>{"a.json", "b.json"}));
  EXPECT_EQ(file.calibration->entries[1].forward->samples, 3 + 5);
  EXPECT_EQ(file.costs.stages[1].backward_input_ns, 700'000) << "a B is split as I and W are";
  EXPECT_EQ(file.costs.stages[1].backward_weight_ns, 1'300'000);
}

TEST(Calibration, RefusesRunsThatDoNotBelongTogether) {
  const Costs costs = testing::costs_of(2, 1000, 2000);
  const RecordedRun a = predicted_run(schedule_of("gpipe", 2, 4), costs, "a.json");
  const auto refuse = [&](RecordedRun b, const std::string& part) {
    b.name = "b.json";
    const std::vector<RecordedRun> both{a, b};
    const std::string error = testing::input_error_of([&] { calibrate(both); });
    EXPECT_NE(error.find("a.json and b.json"), std::string::npos) << error;
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  refuse(as_measured(a), "are a prediction and a measurement");
  refuse(predicted_run(schedule_of("gpipe", 3, 4), testing::costs_of(3, 1000, 2000)),
         "have 2 and 3 ranks");
  refuse(predicted_run(schedule_of("bfs", 2, 4), testing::costs_of(4, 1000, 2000)),
         "have their stages on different ranks");
  RecordedRun other = a;
  other.about.model_json = "{}";
  refuse(other, "trained different models");
  other = a;
  other.about.device = "another";
  refuse(other, "different devices");
  refuse(layered_run(false), "a prediction and a measurement");

  const RecordedRun layers = layered_run(false);
  RecordedRun renamed = layers;
  renamed.about.layers[2] = "block 9";
  EXPECT_NE(testing::input_error_of([&] {
              calibrate(std::vector<RecordedRun>{layers, renamed});
            }).find("different layers"),
            std::string::npos);
  EXPECT_NE(testing::input_error_of([&] {
              calibrate(std::vector<RecordedRun>{layers, layered_run(true)});
            }).find("recomputes"),
            std::string::npos);
  RecordedRun some = layered_run(true);
  some.about.measured.recompute = "full:1";
  EXPECT_NE(testing::input_error_of([&] {
              calibrate(std::vector<RecordedRun>{some});
            }).find("it computes some blocks again (full:1)"),
            std::string::npos);
  for (const std::vector<int>& layout : {std::vector<int>{4}, {3, 2}, {-1, 5}, {0, 4}, {2, 1, 1}}) {
    RecordedRun odd = layers;
    odd.about.layout = layout;
    EXPECT_NE(testing::input_error_of([&] { costs_from(odd); }).find("those of its layout"),
              std::string::npos);
  }
  RecordedRun larger = layers;
  for (Span& span : larger.spans) span.bytes *= 2;
  larger.name = "larger.json";
  EXPECT_NE(testing::input_error_of([&] {
              calibrate(std::vector<RecordedRun>{layers, larger});
            }).find("same model and size of microbatch"),
            std::string::npos);
  EXPECT_NE(testing::input_error_of([&] { calibrate({}); }).find("at least one"),
            std::string::npos);

  // What was not measured is an error of its own, and no guess.
  RecordedRun forwards = a;
  std::erase_if(forwards.spans, [](const Span& span) { return span.action.kind == Kind::B; });
  forwards.iterations[0].end = forwards.spans.size();
  EXPECT_NE(testing::error_of([&] {
              costs_from(forwards);
            }).find("B, or I and W, of stage 0 was not measured alone"),
            std::string::npos);
  RecordedRun nothing = a;
  nothing.spans.clear();
  nothing.iterations.clear();
  EXPECT_NE(testing::error_of([&] { costs_from(nothing); }).find("no action was recorded"),
            std::string::npos);
}

RecordedRun trained_run(const std::string& schedule, int stages, int microbatches,
                        const Model& model, bool recompute = false) {
  const testing::TemporaryFolder folder;
  exec::TrainingJob training =
      testing::tiny_training(schedule_of(schedule, stages, microbatches), model);
  training.verify = false;
  training.record_details = true;
  training.recompute.full = recompute;
  OutputFile trace(folder / "run.json");
  testing::run_locally(training, {}, {}, &trace);
  trace.commit();
  ReadOptions options;
  options.layers = true;
  return read_run({folder / "run.json"}, options);
}

// The closing work of layers is dealt out by what ranks took, and adds up to the
// work of whatever ranks hold them.
TEST(Calibration, ClosingWorkByLayer) {
  RecordedRun run = layered_run(false);
  const auto close = [&](int rank, Kind kind, std::int64_t start_ns, std::int64_t end_ns) {
    Span span;
    span.action = make_action(rank, kind);
    span.rank = rank;
    span.start_ns = start_ns;
    span.end_ns = end_ns;
    run.spans.push_back(span);
  };
  close(0, Kind::REDUCE_GRAD, 90'000'000, 90'000'200);
  close(1, Kind::REDUCE_GRAD, 90'000'000, 90'000'300);
  close(0, Kind::OPTIMIZER, 90'000'300, 90'001'300);
  close(1, Kind::OPTIMIZER, 90'000'300, 90'000'900);
  std::int64_t computed_ns = 0;
  for (const Span& span : run.spans) {
    if (is_compute(span.action.kind)) computed_ns = std::max(computed_ns, span.end_ns);
  }
  run.iterations[0].end = run.spans.size();
  const CostsFile file = costs_from(run);
  const std::int64_t exchange = 90'000'000 - computed_ns;
  const auto near = [](const std::vector<std::int64_t>& got, std::vector<double> expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(got[i]), expected[i], 2);
    }
  };
  const Costs two = file.resolve(Placement::loop(2, 1), std::vector<int>{2, 2});
  near(two.optimizer_ns, {1000, 600});
  near(two.reduce_gradients_ns,
       {static_cast<double>(200 + exchange), static_cast<double>(300 + exchange)});
  EXPECT_EQ(two.stages[0].optimizer_ns, 0) << "it is the rank's now";
  const Costs one = file.resolve(Placement::loop(1, 1), std::nullopt);
  near(one.optimizer_ns, {1600});
  EXPECT_EQ(testing::input_error_of([&] {
              CostsFile both = file;
              both.optimizer_ns = 5;
              parse_costs(to_json(both), "c.json");
            }).find("layers have it, too") != std::string::npos,
            true);
}

// A training's bytes: those of states are the model's, whatever its layout was;
// those of messages and stages what the executor takes.
TEST(Calibration, OfATraining) {
  const Model model = testing::tiny_model(7);
  for (const int stages : {2, 3}) {
    const RecordedRun run = trained_run("zb-h1", stages, 4, model);
    const CostsFile file = costs_from(run);
    ASSERT_EQ(file.layers.size(), 7U);
    const std::int64_t message = std::int64_t{2} * 3 * model.hidden_size * 4;
    for (int l = 0; l < 7; ++l) {
      const StageCosts& layer = file.layers[static_cast<std::size_t>(l)];
      EXPECT_GT(layer.forward_ns, 0);
      EXPECT_GT(layer.backward_input_ns, 0);
      EXPECT_GT(layer.backward_weight_ns, 0);
      EXPECT_EQ(layer.weight_bytes, 4 * model.layer_parameters(l)) << l;
      EXPECT_EQ(layer.gradient_bytes, 4 * model.layer_parameters(l));
      EXPECT_EQ(layer.optimizer_bytes, 8 * model.layer_parameters(l));
      EXPECT_EQ(layer.output_bytes, l == 6 ? 0 : message);
    }
    EXPECT_FALSE(file.optimizer_ns || file.reduce_gradients_ns) << "layers have it";

    // By stage, what an F keeps is by how much the counter rises.
    const Costs costs = file.resolve(Placement::loop(stages, 1), run.about.layout);
    for (int s = 0; s < stages; ++s) {
      EXPECT_GT(costs.optimizer_ns.at(static_cast<std::size_t>(s)), 0);
      EXPECT_GT(costs.reduce_gradients_ns.at(static_cast<std::size_t>(s)), 0);
      const StageCosts& stage = costs.stages[static_cast<std::size_t>(s)];
      std::int64_t before = -1;
      std::int64_t kept = -1;
      for (const MemorySample& sample : run.samples) {
        if (sample.rank != s) continue;
        if (before < 0) before = sample.working.activations;
        if (sample.chunks == 1 && sample.working.activations > before) {
          kept = sample.working.activations - before;  // the last such sample is after the F
        }
        if (sample.chunks > 1 || (kept >= 0 && sample.chunks == 0)) break;
      }
      EXPECT_NEAR(static_cast<double>(stage.activation_bytes), static_cast<double>(kept), 4) << s;
      EXPECT_GT(stage.weight_residue_bytes, 0);
    }
  }
}

// What others take of a rank's processor shortens an action, and not what it keeps.
TEST(Calibration, CountsBytesWhereOthersHadTheProcessor) {
  RecordedRun run = trained_run("gpipe", 2, 4, testing::tiny_model(6));
  const auto activations_where_taken = [&run](int percent) {
    for (Span& span : run.spans) {
      if (!is_compute(span.action.kind)) continue;
      span.preempted_ns = (span.end_ns - span.start_ns) * percent / 100;
    }
    const Costs costs = costs_from(run).resolve(Placement::loop(2, 1), run.about.layout);
    return std::pair(costs.stages[0].activation_bytes, costs.stages[1].activation_bytes);
  };
  const auto calm = activations_where_taken(0);
  const auto busy = activations_where_taken(80);
  EXPECT_GT(calm.first, 0);
  EXPECT_NEAR(static_cast<double>(busy.first), static_cast<double>(calm.first), 4);
  EXPECT_NEAR(static_cast<double>(busy.second), static_cast<double>(calm.second), 4);
}

// What recomputation keeps and computes again belongs to backwards.
TEST(Calibration, OfATrainingThatRecomputes) {
  const Model model = testing::tiny_model(6);
  const RecordedRun plain = trained_run("gpipe", 2, 4, model);
  const RecordedRun again = trained_run("gpipe", 2, 4, model, true);
  EXPECT_TRUE(std::ranges::any_of(again.layers, &LayerSpan::again));
  const CostsFile kept = costs_from(plain);
  const CostsFile recomputed = costs_from(again);
  std::int64_t all_kept = 0;
  std::int64_t all_recomputed = 0;
  for (std::size_t l = 1; l < 5; ++l) {  // blocks
    all_kept += kept.layers[l].activation_bytes;
    all_recomputed += recomputed.layers[l].activation_bytes;
  }
  EXPECT_GT(all_recomputed, 0);
  EXPECT_LT(4 * all_recomputed, all_kept);
}

TEST(CostsFile, KeepsWhatACalibrationSays) {
  const CostsFile file = costs_from(layered_run(false));
  const std::string text = to_json(file);
  const CostsFile again = parse_costs(text, "c.json");
  EXPECT_EQ(again.layers, file.layers);
  EXPECT_EQ(again.costs.p2p, file.costs.p2p);
  EXPECT_EQ(again.receive_ns, file.receive_ns);
  EXPECT_EQ(again.calibration, file.calibration);
  EXPECT_EQ(to_json(again), text);
  const auto refuse = [&](const std::string& from, const std::string& to, const std::string& part) {
    std::string bad = text;
    const std::size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    bad.replace(at, from.size(), to);
    const std::string error = testing::input_error_of([&] { parse_costs(bad, "c.json"); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_TRUE(error.starts_with("c.json:")) << error;
  };
  refuse("\"from\"", "\"form\"", "key 'from' is missing");
  refuse("\"notes\"", "\"remarks\"", "unknown key");
  refuse("\"samples\": 15", "\"samples\": 0", "out of range");
  refuse("\"name\": \"head\"", "\"name\": 3", "must be a string");
  refuse("\"p10_ns\": 210", "\"p10_ns\": 211", "out of range");
  refuse("\"receive_ns\": 70", "\"receive_ns\": -1", "out of range");
  CostsFile short_one = file;
  short_one.calibration->entries.pop_back();
  EXPECT_NE(testing::input_error_of([&] {
              parse_costs(to_json(short_one), "c.json");
            }).find("3 entries for 4"),
            std::string::npos);
}

}  // namespace
}  // namespace pipesim
