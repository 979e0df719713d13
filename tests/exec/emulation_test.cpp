// An emulated device: costs taken as time, messages as they are.
#include "exec/run/emulation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "sim/compare/comparison.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/local_run.h"
#include "tests/random_schedule.h"
#include "tests/recorded.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

using exec::EmulationPace;
using exec::RunResult;
using exec::TrainingJob;

TrainingJob emulated(const Schedule& schedule, const Costs& costs, EmulationPace pace) {
  TrainingJob training;
  training.program = lower(schedule);
  training.costs = costs;
  training.pace = pace;
  training.iterations = 2;
  training.warmup = 1;
  return training;
}

// Short, uneven, with bytes that are no whole number of floats, and none.
Costs uneven_costs(const Schedule& schedule) {
  Costs costs;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    StageCosts own;
    own.forward_ns = 100'000 + 30'000 * stage;
    own.backward_input_ns = 90'000;
    own.backward_weight_ns = 70'000;
    own.activation_bytes = 1000 + stage;
    own.weight_residue_bytes = 100;
    own.weight_bytes = 17;
    own.output_bytes = stage % 2 == 0 ? 4097 : 0;
    costs.stages.push_back(own);
  }
  costs.optimizer_ns.assign(static_cast<std::size_t>(schedule.ranks()), 50'000);
  costs.reduce_gradients_ns.assign(static_cast<std::size_t>(schedule.ranks()), 30'000);
  costs.tied_gradients = GroupCosts{.latency_ns = 40'000};
  costs.gradient_norm = GroupCosts{.latency_ns = 20'000};
  return costs;
}

std::int64_t least_time(const Action& action, const StageCosts& costs) {
  switch (action.kind) {
    case Kind::F: return costs.forward_ns;
    case Kind::I: return costs.backward_input_ns;
    case Kind::W: return costs.backward_weight_ns;
    case Kind::B: return costs.backward_ns();
    case Kind::OPTIMIZER: return 50'000;
    default: return 0;
  }
}

class Emulated : public ::testing::TestWithParam<EmulationPace> {};

// Sleeps may be late, but never end early: no iteration ends before it is predicted to.
TEST_P(Emulated, NeverFasterThanPredicted) {
  for (const char* name : {"1f1b", "zb-h1", "interleaved", "bfs"}) {
    SCOPED_TRACE(name);
    const Schedule schedule = generate({.name = name, .ranks = 3, .microbatches = 4});
    const Costs costs = uneven_costs(schedule);
    const RunResult result = testing::run_locally(emulated(schedule, costs, GetParam()));
    SimulationOptions options;
    options.iterations = 2;
    const Metrics predicted = simulate(schedule, costs, options);
    ASSERT_EQ(result.run.iterations.size(), 2);
    std::int64_t end_ns = 0;
    for (std::size_t k = 0; k < 2 && GetParam() == EmulationPace::wall; ++k) {
      EXPECT_GE(end_ns += result.iteration_ns()[k], predicted.iteration_ends_ns[k]);
    }
    for (std::size_t r = 0; r < predicted.ranks.size(); ++r) {
      EXPECT_EQ(result.metrics.ranks[r].peak_activation_chunks,
                predicted.ranks[r].peak_activation_chunks);
    }
    std::map<Kind, int> counts;
    for (const Span& span : result.run.spans) {
      ++counts[span.action.kind];
      const StageCosts& own = costs.stages[static_cast<std::size_t>(span.action.stage)];
      const std::int64_t took = span.end_ns - span.start_ns;
      if (GetParam() == EmulationPace::wall) {
        EXPECT_GE(took, least_time(span.action, own)) << to_text(span.action);
      }
      const std::int64_t least = GetParam() == EmulationPace::wall ? 0 : 8;  // the time it carries
      if (span.action.kind == Kind::SEND_F) {
        EXPECT_EQ(span.bytes, std::max(own.output_bytes, least));
      }
    }
    EXPECT_EQ(counts[Kind::F], 4 * schedule.stages());
    EXPECT_EQ(counts[Kind::SEND_F], counts[Kind::RECV_F]);
    EXPECT_EQ(counts[Kind::OPTIMIZER], 3);
    EXPECT_EQ(counts[Kind::REDUCE_GRAD], schedule.stages());
    EXPECT_EQ(counts[Kind::REDUCE_TIED], 2);
    EXPECT_EQ(counts[Kind::GRAD_NORM], 3);
    EXPECT_TRUE(result.losses.empty());
    EXPECT_NE(result.run.about.device.find(exec::pace_name(GetParam())), std::string::npos);
  }
}

// Every action that is predicted is done, on its rank, in its order, and no other: the
// reduction of each stage, too, however many a rank has.
void expect_same_program(const Schedule& schedule, const Costs& costs, EmulationPace pace) {
  const RunResult result = testing::run_locally(emulated(schedule, costs, pace));
  const RecordedRun predicted = testing::recorded(schedule, costs);
  const Comparison comparison = compare(predicted, result.run);
  EXPECT_EQ(comparison.counts.matched, std::ssize(predicted.spans));
  EXPECT_EQ(comparison.counts.unmatched, (std::array<std::int64_t, 2>{}));
  EXPECT_EQ(comparison.gap[Term::unmodelled], 0);
  EXPECT_EQ(comparison.gap[Term::order], 0);
  EXPECT_TRUE(comparison.swapped.empty());
  EXPECT_EQ(comparison.gap.total_ns(),
            result.median_ns() - predicted.iterations.front().makespan_ns);
}

TEST_P(Emulated, DoesWhatIsPredicted) {
  for (const Family& family : all_families()) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (int chunks = 1; chunks <= 3; ++chunks) {
        Schedule schedule;
        try {
          schedule = generate({.name = std::string(family.name),
                               .ranks = ranks,
                               .microbatches = 4,
                               .chunks = chunks});
        } catch (const Error&) {
          EXPECT_TRUE(family.default_chunks == 1 ? chunks > 1 : chunks == 1 || ranks == 3);
          continue;  // it has another number of chunks, or of microbatches
        }
        SCOPED_TRACE(fmt::format("{} on {} x {}", family.name, ranks, chunks));
        expect_same_program(schedule, uneven_costs(schedule), GetParam());
      }
    }
  }
}

// A REDUCE_GRAD where a list has one is done there, the others behind everything.
TEST_P(Emulated, DoesRandomProgramsAsTheyAre) {
  std::mt19937_64 random(22);
  for (int i = 0; i < 40; ++i) {
    const Schedule compute = testing::random_schedule(random);
    ActionLists lists;
    for (int rank = 0; rank < compute.ranks(); ++rank) {
      lists.add_rank(compute.actions[rank]);
      for (const int stage : compute.placement.stages_of(rank)) {
        if (testing::pick(random, 0, 1) == 0) lists.add(make_action(stage, Kind::REDUCE_GRAD));
      }
    }
    const Schedule schedule = compute.with(std::move(lists));
    SCOPED_TRACE(to_csv(schedule));
    expect_same_program(schedule, uneven_costs(schedule), GetParam());
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Paces, Emulated,
                         ::testing::Values(EmulationPace::wall, EmulationPace::anchored));

// What is counted is what the costs say, at its most as predicted.
TEST(Emulation, CountsTheMemoryOfTheCosts) {
  const Schedule schedule = generate({.name = "zb-h2", .ranks = 2, .microbatches = 5});
  Costs costs = uneven_costs(schedule);
  for (StageCosts& stage : costs.stages) stage.output_bytes = 0;
  const RunResult result = testing::run_locally(emulated(schedule, costs, EmulationPace::wall));
  const Metrics predicted = simulate(schedule, costs);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(result.memory[r].states.weights, 17);
    EXPECT_EQ(result.memory[r].peak.bytes.activations + result.memory[r].peak.bytes.residue,
              predicted.ranks[r].peak_activation_bytes);
  }
}

}  // namespace
}  // namespace pipesim
