// Time that others had a rank's processor: seen, no cost, and noise.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "exec/run/processor.h"
#include "sim/calibrate/calibration.h"
#include "sim/calibrate/calibration_notes.h"
#include "sim/compare/comparison.h"
#include "sim/engine/record_run.h"
#include "sim/flags/schedule_choice.h"
#include "sim/report/words.h"
#include "tests/random_schedule.h"
#include "traces/print/tables.h"

namespace pipesim {
namespace {

TEST(ProcessorWatch, CountsWhatTheThreadDidNotRun) {
  std::int64_t waited_ns = 0;
  const exec::ProcessorWatch none(false, waited_ns);
  const exec::ProcessorWatch watch(true, waited_ns);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(watch.preempted_ns(), 15'000'000);
  EXPECT_EQ(none.preempted_ns(), 0);
}

RecordedRun measured_run(const Schedule& schedule, const Costs& costs) {
  RecordedRun run = record_run(schedule, costs);
  run.name = "m.json";
  run.about.source = Source::measured;
  std::map<int, std::int64_t> free_ns;  // by rank
  for (Span& span : run.spans) {
    if (!is_compute(span.action.kind)) continue;
    std::int64_t& since = free_ns[span.rank];
    span.queued_ns = span.start_ns - std::min(since, span.start_ns);
    since = span.end_ns;
  }
  return run;
}

// All processors are others' for a while: what runs then takes longer, and all else is later.
void stall(RecordedRun& run, std::int64_t at_ns, std::int64_t for_ns) {
  for (Span& span : run.spans) {
    const bool runs = span.start_ns < at_ns && span.end_ns > at_ns;
    if (runs && is_compute(span.action.kind)) span.preempted_ns += for_ns;
    const std::int64_t reached_ns = span.start_ns - span.queued_ns;
    const auto later = [&](std::int64_t ns) { return ns >= at_ns ? ns + for_ns : ns; };
    for (std::int64_t* time :
         {&span.start_ns, &span.end_ns, &span.input_sent_ns, &span.input_arrival_ns}) {
      *time = later(*time);
    }
    span.queued_ns = span.start_ns - later(reached_ns);
  }
  find_iterations(run);
}

TEST(TakenTime, IsNoCostAndNoCause) {
  const Schedule schedule =
      choose_schedule({.name = "1f1b", .ranks = 3, .microbatches = 6}).schedule;
  const Costs costs = testing::costs_of(3, 1'000'000, 2'000'000, 0);
  const RecordedRun predicted = record_run(schedule, costs);
  RecordedRun run = measured_run(schedule, costs);
  const std::int64_t planned = run.iterations[0].makespan_ns;
  EXPECT_EQ(preempted_fraction(run.spans_of(run.iterations[0])), 0);
  EXPECT_EQ(taken_line(run), "");
  std::int64_t lost = 0;
  // In the middle of what ranks 0 and 2 do, again and again.
  for (const std::int64_t at : {500'000, 5'500'000, 13'500'000, 21'500'000}) {
    stall(run, at, 3'000'000);
    lost += 3'000'000;
  }
  ASSERT_EQ(run.iterations[0].makespan_ns, planned + lost);
  EXPECT_GT(preempted_fraction(run.spans_of(run.iterations[0])), 0.1);
  EXPECT_NE(taken_line(run).find("Other processes took "), std::string::npos);

  const Calibration calibration = calibrate({&run, 1});
  for (const StageCosts& stage : calibration.costs.costs.stages) {
    EXPECT_EQ(stage.forward_ns, 1'000'000);
    EXPECT_EQ(stage.backward_ns(), 2'000'000);
  }
  ASSERT_EQ(calibration.doubts.size(), 1U);
  EXPECT_NE(calibration.doubts[0].find("m.json: other processes used the processors"),
            std::string::npos);

  const Comparison comparison = compare(predicted, run);
  EXPECT_EQ(comparison.gap.total_ns(), lost);
  EXPECT_EQ(comparison.noise.effect_ns, lost);
  EXPECT_GT(comparison.noise.preempted_fraction, 0.1);
  EXPECT_TRUE(comparison.root_causes.empty());
  EXPECT_NE(
      verdict_of(comparison).find("Most of it is noise (+12.00 ms): other processes used its"),
      std::string::npos)
      << verdict_of(comparison);
}

// Another slow cause is still named, with its full size.
TEST(TakenTime, HidesNoCause) {
  const Schedule schedule =
      choose_schedule({.name = "1f1b", .ranks = 3, .microbatches = 6}).schedule;
  Costs costs = testing::costs_of(3, 1'000'000, 2'000'000, 0);
  const RecordedRun predicted = record_run(schedule, costs);
  costs.stages[1].split_backward(3'000'000);
  RecordedRun run = measured_run(schedule, costs);
  const std::int64_t slower = run.iterations[0].makespan_ns - predicted.iterations[0].makespan_ns;
  for (const std::int64_t at : {5'500'000, 13'500'000}) stall(run, at, 4'000'000);
  const Comparison comparison = compare(predicted, run);
  ASSERT_FALSE(comparison.root_causes.empty());
  const RootCause& cause = comparison.root_causes.front();
  EXPECT_EQ(cause.stage, 1);
  EXPECT_EQ(cause.kind, Kind::B);
  // What the stalls hide of it, and it of them, both have half of.
  EXPECT_NEAR(static_cast<double>(cause.effect_ns), static_cast<double>(slower),
              0.2 * static_cast<double>(slower));
}

// Of blocks that are alike one is slow: said, with its name.
TEST(CalibrationDoubts, NameTheLayerThatIsUnlikeTheOthers) {
  CostsFile costs;
  Provenance& from = costs.calibration.emplace();
  for (int i = 0; i < 5; ++i) {
    StageCosts layer;
    layer.forward_ns = i == 3 ? 1'500'000 : 1'000'000 + i * 10'000;
    layer.split_backward(2'000'000);
    costs.layers.push_back(layer);
    const Spread spread{30, layer.forward_ns - 40'000, layer.forward_ns + 40'000};
    from.entries.push_back({"block " + std::to_string(i), spread, {}, {}, {}});
  }
  EXPECT_EQ(doubts_about(costs, {}).size(), 1U);
  EXPECT_TRUE(doubts_about(costs, {})[0].starts_with(
      "F of block 3 takes 1.50 ms, others like it 1.02 ms; that is more than they vary"))
      << doubts_about(costs, {})[0];
  costs.layers[3].forward_ns = 1'060'000;
  EXPECT_TRUE(doubts_about(costs, {}).empty()) << "within what they vary";
}

}  // namespace
}  // namespace pipesim
