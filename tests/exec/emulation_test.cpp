// An emulated device: costs taken as time, messages as they are.
#include "exec/run/emulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/local_run.h"
#include "tests/random_schedule.h"

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

// Sleeps may be late, but never end early: no run beats its prediction.
TEST_P(Emulated, NeverFasterThanPredicted) {
  for (const char* name : {"1f1b", "zb-h1", "interleaved", "bfs"}) {
    SCOPED_TRACE(name);
    const Schedule schedule = generate({.name = name, .ranks = 3, .microbatches = 4});
    const Costs costs = uneven_costs(schedule);
    const RunResult result = testing::run_locally(emulated(schedule, costs, GetParam()));
    const Metrics predicted = simulate(schedule, costs);
    EXPECT_GE(result.metrics.makespan_ns,
              GetParam() == EmulationPace::wall ? predicted.makespan_ns : 0);
    for (std::size_t r = 0; r < predicted.ranks.size(); ++r) {
      EXPECT_EQ(result.metrics.ranks[r].peak_activation_chunks,
                predicted.ranks[r].peak_activation_chunks);
    }
    std::map<Kind, int> counts;
    for (const Span& span : result.spans) {
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
    EXPECT_TRUE(result.losses.empty());
    EXPECT_NE(result.device.find(exec::pace_name(GetParam())), std::string::npos);
  }
}

// Every action that is predicted is done, on its rank, and no other: the reduction of each
// stage, too, however many a rank has.
TEST_P(Emulated, DoesWhatIsPredicted) {
  const auto done = [](const auto& spans) {
    std::multiset<std::pair<int, std::string>> actions;
    for (const Span& span : spans) actions.emplace(span.rank, to_text(span.action));
    return actions;
  };
  for (const Family& family : all_families()) {
    for (const int ranks : {1, 3}) {
      SCOPED_TRACE(std::string(family.name) + " on " + std::to_string(ranks));
      const Schedule schedule =
          generate({.name = std::string(family.name), .ranks = ranks, .microbatches = 3});
      const Costs costs = uneven_costs(schedule);
      const RunResult result = testing::run_locally(emulated(schedule, costs, GetParam()));
      EXPECT_EQ(done(result.spans), done(record_timeline(schedule, costs).spans));
    }
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
