// An emulated device: costs taken as time, messages as they are.
#include "exec/run/emulation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "sim/calibrate/calibration.h"
#include "sim/compare/comparison.h"
#include "sim/cost/estimate/direct_exchange.h"
#include "sim/cost/estimate/replicas.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/files.h"
#include "tests/local_run.h"
#include "tests/random_schedule.h"
#include "tests/recorded.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/dependency.h"
#include "traces/joining.h"
#include "traces/read/read_run.h"

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

void expect_same_actions(const RecordedRun& predicted, const Comparison& comparison) {
  EXPECT_EQ(comparison.counts.matched, std::ssize(predicted.spans));
  EXPECT_EQ(comparison.counts.unmatched, (std::array<std::int64_t, 2>{}));
  EXPECT_EQ(comparison.gap[Term::unmodelled], 0);
  EXPECT_EQ(comparison.gap[Term::order], 0);
}

// Every action that is predicted is done, on its rank, in its order, and no other: the
// reduction of each stage, too, however many a rank has.
void expect_same_program(const Schedule& schedule, const Costs& costs, EmulationPace pace) {
  const RunResult result = testing::run_locally(emulated(schedule, costs, pace));
  const RecordedRun predicted = testing::recorded(schedule, costs);
  const Comparison comparison = compare(predicted, result.run);
  expect_same_actions(predicted, comparison);
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
          const bool other_chunks = !family.many_chunks && chunks != family.default_chunks;
          const bool other_microbatches = family.name == "dualpipe"     ? ranks != 2
                                          : family.name == "dualpipe-v" ? ranks > 2
                                                                        : ranks == 3;
          EXPECT_TRUE(other_chunks || other_microbatches) << family.name;
          continue;
        }
        SCOPED_TRACE(fmt::format("{} on {} x {}", family.name, ranks, chunks));
        expect_same_program(schedule, uneven_costs(schedule), GetParam());
      }
    }
  }
}

// A cell with a time of its own begins and ends as one.
TEST_P(Emulated, CellsTakeTheirOwnTime) {
  const Schedule schedule = generate({.name = "dualpipe-v", .ranks = 2, .microbatches = 5});
  Costs costs = uneven_costs(schedule);
  for (StageCosts& stage : costs.stages) stage.overlap_ns = 70'000;  // less than any forward
  expect_same_program(schedule, costs, GetParam());
  const RunResult result = testing::run_locally(emulated(schedule, costs, GetParam()));
  std::int64_t cells = 0;
  for (std::size_t i = 0; i < result.run.spans.size(); ++i) {
    const Span& forward = result.run.spans[i];
    if (!forward.action.joined) continue;
    const Span& backward = result.run.spans[i + 1];
    EXPECT_TRUE(is_backward(backward.action.kind));
    EXPECT_EQ(std::tuple(forward.rank, forward.start_ns, forward.end_ns),
              std::tuple(backward.rank, backward.start_ns, backward.end_ns));
    if (GetParam() == EmulationPace::wall) {
      EXPECT_GE(forward.end_ns - forward.start_ns, 70'000);
    }
    ++cells;
  }
  EXPECT_EQ(cells, std::ranges::count(schedule.actions.all(), true, &Action::joined));
  EXPECT_GT(cells, 0);
  EXPECT_EQ(result.metrics.ranks[0].peak_activation_chunks,
            simulate(schedule, costs).ranks[0].peak_activation_chunks);
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
    EXPECT_EQ(result.ranks[r].memory.states.weights, 17);
    EXPECT_EQ(
        result.ranks[r].memory.peak.bytes.activations + result.ranks[r].memory.peak.bytes.residue,
        predicted.ranks[r].peak_activation_bytes);
  }
}

// A message is there once its link's time is over, whoever carries it, and no sooner.
TEST_P(Emulated, LinksTakeWhatCostsSay) {
  const Schedule schedule = generate({.name = "1f1b", .ranks = 3, .microbatches = 4});
  Costs costs;
  costs.stages.resize(3);
  for (StageCosts& stage : costs.stages) {
    stage.forward_ns = 200'000;
    stage.backward_input_ns = 300'000;
    stage.output_bytes = 1'000'000;
  }
  costs.p2p = {1'000'000, 1'000'000'000, {}};  // 1 ms and 1 ms for the bytes
  costs.edges[{1, 0}] = {};                    // takes no time
  const RunResult result = testing::run_locally(emulated(schedule, costs, GetParam()));
  const SpanIndex index(result.run.spans);
  int slow = 0;
  for (const Span& span : result.run.spans) {
    if (!is_receive(span.action.kind)) continue;
    const bool is_slow = span.action.kind == Kind::RECV_F || span.rank != 0;
    slow += is_slow;
    if (!is_slow || GetParam() == EmulationPace::anchored) continue;
    const Span& send = result.run.spans[index.find(peer_of(span.action)).value()];
    EXPECT_GE(span.end_ns - send.start_ns, 2'000'000) << to_text(span.action);
  }
  EXPECT_EQ(slow, 4 * 3);
  // There and back once at least, and the time of the actions.
  if (GetParam() == EmulationPace::anchored) return;
  EXPECT_GE(result.median_ns(), 2 * 2'000'000 + 2'000'000 + 3 * 500'000);
}

// Replicas of a pipeline, on links that take a time, or on none.
struct ReplicaShape {
  int replicas;
  int zero;
  std::optional<std::int64_t> bucket_bytes;
  std::optional<int> shard_over;
};

Training training_in(const ReplicaShape& shape) {
  Training training;
  training.data_parallel = shape.replicas;
  training.zero = shape.zero;
  training.bucket_bytes = shape.bucket_bytes;
  training.shard_over = shape.shard_over;
  return training;
}

Costs costs_with_parameters(const Schedule& schedule) {
  Costs costs = uneven_costs(schedule);
  costs.reduce_gradients_ns.clear();
  costs.tied_gradients.reset();
  for (StageCosts& stage : costs.stages) {
    stage.parameters = {3000, 1001};
    stage.weight_bytes = 100;
    stage.gradient_bytes = 100;
    stage.optimizer_bytes = 200;
  }
  return costs;
}

TrainingJob emulated_replicas(const Schedule& schedule, Costs costs, const ReplicaShape& shape) {
  split_states(training_in(shape), costs);
  TrainingJob training = emulated(schedule, costs, EmulationPace::wall);
  training.data_parallel = shape.replicas;
  training.zero = shape.zero;
  training.bucket_bytes = shape.bucket_bytes;
  training.shard_over = shape.shard_over;
  return training;
}

// The same collectives as predicted, of the same bytes but for what rounding parts makes.
TEST(EmulatedReplicas, DoWhatIsPredicted) {
  const ReplicaShape shapes[] = {{2, 0, {}, {}}, {2, 0, 4000, {}}, {3, 1, 4000, {}},
                                 {2, 2, {}, {}}, {2, 2, 4000, {}}, {2, 3, {}, {}},
                                 {4, 3, {}, 2},  {4, 1, 4000, 2},  {3, 0, 20'000, {}}};
  for (const char* name : {"1f1b", "zb-h1", "interleaved"}) {
    for (const ReplicaShape& shape : shapes) {
      for (const bool has_links : {true, false}) {
        SCOPED_TRACE(fmt::format("{}, {} replicas, zero {}, links {}", name, shape.replicas,
                                 shape.zero, has_links));
        const Training replicas = training_in(shape);
        const Schedule schedule =
            with_replicas(generate({.name = name, .ranks = 2, .microbatches = 2}), replicas);
        Costs costs = costs_with_parameters(schedule);
        if (has_links) costs.replicas = {.latency_ns = 50'000, .bytes_per_second = 100'000'000};
        const RunResult result = testing::run_locally(emulated_replicas(schedule, costs, shape));
        if (!has_links) costs.replicas.emplace();
        split_states(replicas, costs);
        add_exchanges(replicas, schedule.placement, costs);
        const RecordedRun predicted = testing::recorded(schedule, costs);
        expect_same_actions(predicted, compare(predicted, result.run));
        ASSERT_EQ(std::ssize(result.ranks), 2 * shape.replicas);
        const SpanIndex index(result.run.spans);
        for (const Span& planned : predicted.spans) {
          if (!is_collective(planned.action) || planned.action.kind == Kind::RESHARD) continue;
          const auto place = index.find(planned.action, planned.rank);
          ASSERT_TRUE(place);
          const Span& done = result.run.spans[*place];
          EXPECT_NEAR(static_cast<double>(done.bytes), static_cast<double>(planned.bytes), 400);
        }
        EXPECT_EQ(result.ranks[0].memory.states.optimizer,
                  costs.states(schedule.placement)[0].optimizer);
        if (HasFailure()) return;
      }
    }
  }
}

// Gradients come while the action runs that makes them, and go at once.
TEST(EmulatedReplicas, ReduceBesideTheBackward) {
  const ReplicaShape shape{2, 0, 4000, {}};
  const Schedule schedule =
      with_replicas(generate({.name = "gpipe", .ranks = 1, .microbatches = 2}), training_in(shape));
  Costs costs = costs_with_parameters(schedule);
  costs.stages[0].backward_input_ns = costs.stages[0].backward_weight_ns = 8'000'000;
  costs.replicas = {.latency_ns = 3'000'000};
  const RunResult result = testing::run_locally(emulated_replicas(schedule, costs, shape));
  for (const exec::RankResult& rank : result.ranks) {
    EXPECT_GT(rank.collectives.hidden_ns, 0);
    EXPECT_LE(rank.collectives.hidden_ns, rank.collectives.total_ns);
  }
  const SpanIndex index(result.run.spans);
  const Span& last = result.run.spans[index.find(make_action(0, Kind::B, 1)).value()];
  const Span& reduction =
      result.run.spans[index.find(make_collective(0, Kind::REDUCE_GRAD, 0)).value()];
  // Of 16,004 bytes the first 4,000 are there after a quarter.
  EXPECT_GE(reduction.start_ns, last.start_ns + 3'900'000);
  EXPECT_LT(reduction.start_ns, last.end_ns);
  // Summed up by one message, and sent back by another.
  EXPECT_GE(reduction.end_ns, last.end_ns + 3'000'000);
}

// Calibrated on their trace, costs say what an exchange takes, and what one replica holds.
TEST(EmulatedReplicas, TracesAreReadAndCalibrated) {
  for (const int zero : {0, 1, 3}) {
    SCOPED_TRACE(zero);
    const ReplicaShape shape{2, zero, {}, {}};
    const Schedule schedule = with_replicas(
        generate({.name = "1f1b", .ranks = 2, .microbatches = 3}), training_in(shape));
    Costs costs = costs_with_parameters(schedule);
    costs.replicas = {.latency_ns = 0, .bytes_per_second = 10'000'000};
    TrainingJob training = emulated_replicas(schedule, costs, shape);
    training.iterations = 3;
    training.record_details = true;
    const testing::TemporaryFolder folder;
    OutputFile trace(folder / "run.json");
    testing::run_locally(training, {}, {}, &trace);
    trace.commit();
    const RecordedRun run = read_run({folder / "run.json"});
    ASSERT_EQ(run.warnings.kinds().size(), 1U) << run.warnings.text();
    EXPECT_EQ(run.about.replicas, 2);
    EXPECT_EQ(run.about.zero, zero);
    const auto gathers = std::ranges::count(run.spans, Kind::UNSHARD,
                                            [](const Span& span) { return span.action.kind; });
    EXPECT_EQ(gathers > 0, zero == 3);
    const CostsFile file = calibrate(std::vector<RecordedRun>{run}).costs;
    ASSERT_TRUE(file.costs.replicas);
    EXPECT_EQ(file.costs.stages[0].parameters, (std::vector<std::int64_t>{3000, 1001}));
    EXPECT_NEAR(static_cast<double>(file.costs.stages[0].optimizer_bytes), 200, 1);
  }
}

TEST_P(Emulated, FaultsTakeTheirTime) {
  const Schedule schedule = generate({.name = "1f1b", .ranks = 2, .microbatches = 4});
  Costs costs;
  costs.stages.resize(2);
  for (StageCosts& stage : costs.stages) stage.forward_ns = stage.backward_input_ns = 300'000;
  const auto run_with = [&](const std::vector<std::string>& faults) {
    TrainingJob training = emulated(schedule, costs, GetParam());
    for (const std::string& fault : faults) training.faults.add(fault, schedule);
    return testing::run_locally(training);
  };
  const auto span_of = [](const RunResult& result, const char* action) {
    const auto found = std::ranges::find(result.run.spans, std::string(action),
                                         [](const Span& span) { return to_text(span.action); });
    return *found;
  };
  const RunResult slow = run_with({"F@stage1=x3", "1B2=x20"});
  const RunResult late = run_with({"launch@rank0=2ms", "pause@1B1=9ms"});
  // Anchored actions that start late end in time.
  if (GetParam() == EmulationPace::wall) {
    EXPECT_GE(span_of(slow, "1F1").end_ns - span_of(slow, "1F1").start_ns, 900'000);
    EXPECT_GE(span_of(slow, "1B2").end_ns - span_of(slow, "1B2").start_ns, 6'000'000);
    EXPECT_GE(span_of(late, "0F1").start_ns - span_of(late, "0F0").end_ns, 2'000'000);
    EXPECT_GE(span_of(late, "1B1").start_ns - span_of(late, "1F1").end_ns, 9'000'000);
  }
  EXPECT_EQ(late.run.about.device.find("emulated, "), 0U);
  EXPECT_NE(late.run.about.device.find(", launch@rank0=2ms, pause@1B1=9ms"), std::string::npos);
}

// Draws are of the action and the iteration, and of nothing else.
TEST(Faults, JitterIsAlwaysTheSame) {
  exec::Faults faults;
  faults.add("jitter@rank1=10%", generate({.name = "1f1b", .ranks = 2, .microbatches = 2}));
  double sum = 0;
  double squares = 0;
  constexpr int draws = 4000;
  for (int i = 0; i < draws; ++i) {
    const Action action = make_action(1, Kind::F, i % 100);
    const std::int64_t took = faults.duration_ns(action, i / 100, 1, 1'000'000);
    EXPECT_EQ(took, faults.duration_ns(action, i / 100, 1, 1'000'000));
    EXPECT_EQ(faults.duration_ns(make_action(0, Kind::F, i % 100), i / 100, 0, 1'000'000),
              1'000'000);
    sum += static_cast<double>(took);
    squares += static_cast<double>(took) * static_cast<double>(took);
  }
  const double mean = sum / draws;
  EXPECT_NEAR(mean, 1e6, 1e4);
  EXPECT_NEAR(std::sqrt(squares / draws - mean * mean), 1e5, 1e4);
}

// A training with faults takes longer where they say so, and learns the same.
TEST(Faults, OfATrainingChangeItsTimesAlone) {
  const Schedule schedule = generate({.name = "1f1b", .ranks = 2, .microbatches = 4});
  TrainingJob training = testing::tiny_training(schedule, testing::tiny_model(4));
  for (const char* fault : {"pause@1B1=9ms", "launch@rank0=2ms", "0F2=x100"}) {
    training.faults.add(fault, training.program);
  }
  const RunResult result = testing::run_locally(training);
  ASSERT_TRUE(result.verification);
  EXPECT_TRUE(result.verification->bitwise);
  std::map<std::string, Span> spans;
  for (const Span& span : result.run.spans) spans[to_text(span.action)] = span;
  EXPECT_GE(spans["1B1"].start_ns - spans["1F1"].end_ns, 9'000'000);
  EXPECT_GE(spans["0F1"].start_ns - spans["0F0"].end_ns, 2'000'000);
  EXPECT_GT(spans["0F2"].end_ns - spans["0F2"].start_ns,
            5 * (spans["0F1"].end_ns - spans["0F1"].start_ns - spans["0F1"].preempted_ns));
}

}  // namespace
}  // namespace pipesim
