// Everything that a training did stands in its prediction: who calibrates a run and predicts
// it again finds the same actions, on the same ranks and in the same order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>

#include "sim/calibrate/calibration.h"
#include "sim/compare/comparison.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/delayed_transport.h"
#include "tests/files.h"
#include "tests/local_run.h"
#include "tests/recorded.h"
#include "traces/base/error.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

RecordedRun recorded_training(const Schedule& schedule, bool tied) {
  const testing::TemporaryFolder folder;
  Model model = testing::tiny_model(std::max(4, schedule.stages()));
  model.tied_head = tied;
  exec::TrainingJob training = testing::tiny_training(schedule, model);
  training.verify = false;
  training.iterations = 2;
  OutputFile trace(folder / "run.json");
  testing::run_locally(training, {}, {}, &trace);
  trace.commit();
  return read_run({folder / "run.json"});
}

// Whatever its time: costs that hold for all iterations are right for none.
void expect_predicted(const Schedule& schedule, bool tied) {
  const RecordedRun measured = recorded_training(schedule, tied);
  const Costs costs = calibrate({&measured, 1}).costs.resolve(schedule.placement, std::nullopt);
  const bool has_copies = schedule.placement.copies() > 1;  // their sum has tied ones, too
  EXPECT_EQ(costs.tied_gradients.has_value(), tied && !has_copies);
  EXPECT_TRUE(costs.gradient_norm);
  const RecordedRun predicted = testing::recorded(schedule, costs);
  const Comparison comparison = compare(predicted, measured);
  EXPECT_EQ(comparison.counts.matched, std::ssize(predicted.spans));
  EXPECT_EQ(comparison.counts.unmatched, (std::array<std::int64_t, 2>{}));
  EXPECT_EQ(comparison.gap[Term::unmodelled], 0);
  EXPECT_EQ(comparison.gap[Term::order], 0);
  EXPECT_TRUE(comparison.swapped.empty());

  // A group starts together, when its last rank has come.
  for (const RecordedIteration& iteration : measured.iterations) {
    std::map<Kind, std::set<std::int64_t>> starts;
    std::map<Kind, int> counts;
    for (const Span& span : measured.spans_of(iteration)) {
      if (!is_blocking_collective(span.action.kind)) continue;
      ++counts[span.action.kind];
      starts[span.action.kind].insert(span.start_ns);
      EXPECT_GE(span.queued_ns, 0);
    }
    const auto ends = static_cast<int>(group_of(Kind::REDUCE_TIED, schedule.placement).size());
    EXPECT_EQ(counts[Kind::REDUCE_TIED], tied && !has_copies ? ends : 0);
    EXPECT_EQ(counts[Kind::GRAD_NORM], schedule.ranks());
    for (const auto& [kind, times] : starts) EXPECT_EQ(times.size(), 1) << kind_name(kind);
  }
}

TEST(SameProgram, OfEveryFamily) {
  int runs = 0;
  for (const Family& family : all_families()) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      Schedule schedule;
      try {
        schedule = generate({.name = std::string(family.name), .ranks = ranks, .microbatches = 4});
      } catch (const Error& error) {
        EXPECT_EQ(error.exit_status(), 2);  // a shape that the family's definition leaves out
        continue;
      }
      if (find_deadlock(schedule, SendMode::buffered)) continue;
      SCOPED_TRACE(fmt::format("{} on {}", family.name, ranks));
      expect_predicted(schedule, ranks % 2 == 0);
      ++runs;
    }
  }
  EXPECT_GE(runs, 30);
}

// DualPipeV's first and last stage live on one rank: a group of one.
TEST(SameProgram, OfAFile) {
  for (const char* file : {"dualpipev_4rank_10mb.csv", "zb1p_2rank_2stagep_compute.csv"}) {
    SCOPED_TRACE(file);
    expect_predicted(read_csv(testing::golden(file)), true);
  }
}

// A message that takes long delays what waits for it, and nothing else changes.
TEST(SameProgram, WaitsForWhatItSays) {
  Schedule program = lower(generate({.name = "gpipe", .ranks = 2, .microbatches = 4}));
  program.dependencies = {
      {make_action(0, Kind::F, 2), make_action(0, Kind::SEND_F, 1)},
      {make_action(1, Kind::B, 3), make_action(1, Kind::SEND_B, 2)},
  };
  const exec::TrainingJob training = testing::tiny_training(program, testing::tiny_model(4));
  unsigned seed = 0;
  const exec::RunResult result = testing::run_locally(training, 0, [&](exec::Transport& own) {
    return std::make_unique<testing::DelayedTransport>(own, ++seed, 2000);
  });
  testing::expect_bitwise(result);
  const auto spans = result.run.spans_of(result.run.iterations.front());
  for (const auto& [action, awaited] : program.dependencies) {
    EXPECT_GE(std::ranges::find(spans, action, &Span::action)->start_ns,
              std::ranges::find(spans, awaited, &Span::action)->end_ns)
        << to_text(action);
  }
}

}  // namespace
}  // namespace pipesim
