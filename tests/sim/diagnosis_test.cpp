// Causes of slow runs whose truth is known: the same run without the fault.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sim/compare/comparison.h"
#include "sim/engine/record_run.h"
#include "sim/schedule/family.h"
#include "tests/random_schedule.h"
#include "tests/recorded.h"

namespace pipesim {
namespace {

RecordedRun run_of(const Schedule& schedule, const Costs& costs, int iterations = 1) {
  SimulationOptions options;
  options.iterations = iterations;
  return testing::recorded(schedule, costs, iterations == 1 ? "run" : "runs", options);
}

Costs planned_costs(int stages) {
  Costs costs = testing::costs_of(stages, 4'000'000, 8'000'000, 400'000);
  for (StageCosts& stage : costs.stages) stage.output_bytes = 4096;
  return costs;
}

// As pipeexec records what its hosts see: a rank that computes looks for messages between its
// actions, a little later.
RecordedRun as_hosts_see(RecordedRun run) {
  run.about.source = Source::measured;
  run.about.transport = "local";
  for (Span& span : run.spans) {
    if (!is_receive(span.action.kind)) continue;
    for (const Span& work : run.spans) {
      if (work.rank != span.rank || is_transfer(work.action.kind)) continue;
      if (work.start_ns < span.end_ns && work.end_ns > span.end_ns) {
        span.end_ns = work.end_ns + 2'000;
      }
    }
  }
  return run;
}

// The slow stage makes its own messages late, and those of others; none of them is slow.
TEST(Diagnosis, AMessageThatIsSeenLateIsNotSlow) {
  const Schedule schedule = generate({"1f1b", 4, 8});
  const Costs planned = planned_costs(4);
  for (std::size_t slow = 0; slow < 4; ++slow) {
    Costs costs = planned;
    costs.stages[slow].backward_weight_ns += 3'000'000;
    const RecordedRun prediction = run_of(schedule, planned);
    const RecordedRun truth = run_of(schedule, costs);
    const Comparison comparison = compare(prediction, as_hosts_see(truth));
    const std::int64_t effect_ns =
        truth.iterations.front().makespan_ns - prediction.iterations.front().makespan_ns;
    ASSERT_FALSE(comparison.root_causes.empty());
    const RootCause& cause = comparison.root_causes.front();
    EXPECT_EQ(cause.term, Term::compute);
    EXPECT_EQ(cause.stage, static_cast<std::int32_t>(slow));
    EXPECT_EQ(cause.kind, Kind::B);
    EXPECT_NEAR(static_cast<double>(cause.effect_ns), static_cast<double>(effect_ns),
                0.01 * static_cast<double>(effect_ns));
    for (const RootCause& other : comparison.root_causes) {
      if (&other == &cause) continue;
      EXPECT_LT(std::abs(other.effect_ns), effect_ns / 50) << other.why;
    }
  }
}

// What a rank fetches once it is free comes a little after that: it lay there, and was not slow,
// even where no other message on its way was seen as it came.
TEST(Diagnosis, AMessageThatIsFetchedIsNotSlow) {
  // Stage 2's results come to rank 1 while it is busy, the first time for very long.
  RecordedRun planned;
  planned.name = "run";
  planned.ranks = 2;
  planned.microbatches = 2;
  planned.chunk_of_stage = {0, 0, 1, 1};
  planned.about.source = Source::measured;
  planned.about.transport = "local";
  planned.about.rank_of_stage = {0, 1, 0, 1};
  const auto add = [](RecordedRun& run, const char* action, int rank, std::int64_t start_us,
                      std::int64_t end_us) {
    run.spans.push_back({*parse_action(action), rank, 0, start_us * 1000, end_us * 1000});
  };
  RecordedRun slow = planned;
  for (const auto& [run, longer] : {std::pair(&planned, 0), {&slow, 60'000}}) {
    add(*run, "0F0", 0, 0, 1000);
    add(*run, "0F1", 0, 1000, 2000);
    add(*run, "1F0", 1, 1080, 2080);
    add(*run, "1F1", 1, 2080, 4080 + longer);
    add(*run, "2F0", 0, 2160, 3160);
    add(*run, "2SEND_F0", 0, 3160, 3170);
    add(*run, "3RECV_F0", 1, 3160, 4125 + longer);
    add(*run, "3F0", 1, 4125 + longer, 5125 + longer);
    add(*run, "2F1", 0, 4160 + longer, 4900 + longer);
    add(*run, "2SEND_F1", 0, 4900 + longer, 4910 + longer);
    add(*run, "3RECV_F1", 1, 4900 + longer, 5145 + longer);
    add(*run, "3F1", 1, 5145 + longer, 6145 + longer);
    find_iterations(*run);
  }
  const Comparison comparison = compare(planned, slow);
  ASSERT_FALSE(comparison.root_causes.empty());
  const RootCause& cause = comparison.root_causes.front();
  EXPECT_EQ(cause.term, Term::compute);
  EXPECT_EQ(cause.stage, 1);
  EXPECT_NEAR(static_cast<double>(cause.effect_ns), 60e6, 0.1e6);
  EXPECT_LT(std::abs(comparison.gap[Term::transfer]), 1'000'000);
}

// And one that is slow is, though others were seen late.
TEST(Diagnosis, ASlowLinkIsFoundAmongMessagesSeenLate) {
  const Schedule schedule = generate({"1f1b", 4, 8});
  const Costs planned = planned_costs(4);
  Costs costs = planned;
  costs.edges[{1, 2}] = {5'000'000, {}, {}};
  const RecordedRun prediction = run_of(schedule, planned);
  const RecordedRun truth = run_of(schedule, costs);
  const Comparison comparison = compare(prediction, as_hosts_see(truth));
  ASSERT_FALSE(comparison.root_causes.empty());
  const RootCause& cause = comparison.root_causes.front();
  EXPECT_EQ(cause.term, Term::transfer);
  EXPECT_EQ(cause.rank, 1);
  EXPECT_EQ(cause.to_rank, 2);
  EXPECT_EQ(cause.kind, Kind::SEND_F);
  const auto effect_ns = static_cast<double>(truth.iterations.front().makespan_ns -
                                             prediction.iterations.front().makespan_ns);
  EXPECT_NEAR(static_cast<double>(cause.effect_ns), effect_ns, 0.02 * effect_ns);
}

// Of chunks that share a way, the way is named once.
TEST(Diagnosis, ALinkOfSeveralStagesIsOneCause) {
  const Schedule schedule =
      generate({.name = "interleaved", .ranks = 3, .microbatches = 6, .chunks = 2});
  const Costs planned = planned_costs(6);
  Costs costs = planned;
  costs.edges[{0, 1}] = {3'000'000, {}, {}};
  const Comparison comparison = compare(run_of(schedule, planned), run_of(schedule, costs));
  ASSERT_EQ(comparison.root_causes.size(), 1U);
  const RootCause& cause = comparison.root_causes.front();
  EXPECT_EQ(cause.rank, 0);
  EXPECT_EQ(cause.to_rank, 1);
  EXPECT_EQ(cause.stage, std::nullopt);
  EXPECT_EQ(cause.kind, std::nullopt);
  EXPECT_EQ(cause.effect_ns, comparison.gap.total_ns());
}

// Of two faults each has what its removal gains, alone and after the other's, on average.
TEST(Diagnosis, TwoFaultsShareWhatTheyDoTogether) {
  const Schedule schedule = generate({"1f1b", 4, 8});
  const Costs planned = planned_costs(4);
  const auto makespan = [&](bool first, bool second) {
    Costs costs = planned;
    if (first) costs.stages[1].forward_ns += 4'000'000;
    if (second) costs.stages[3].backward_input_ns += 2'500'000;
    return run_of(schedule, costs);
  };
  const auto ns = [&](bool first, bool second) {
    return makespan(first, second).iterations.front().makespan_ns;
  };
  const Comparison comparison = compare(makespan(false, false), makespan(true, true));
  ASSERT_EQ(comparison.root_causes.size(), 2U);
  const std::int64_t of_first =
      (ns(true, true) - ns(false, true) + ns(true, false) - ns(false, false)) / 2;
  const std::int64_t of_second =
      (ns(true, true) - ns(true, false) + ns(false, true) - ns(false, false)) / 2;
  for (const RootCause& cause : comparison.root_causes) {
    EXPECT_NEAR(static_cast<double>(cause.effect_ns),
                static_cast<double>(cause.stage == 1 ? of_first : of_second), 1);
  }
  EXPECT_EQ(comparison.root_causes.front().stage, of_first > of_second ? 1 : 3);
}

// Iterations of one run, each with durations of its own.
RecordedRun varied(const Schedule& schedule, const Costs& costs, double deviation, unsigned seed) {
  RecordedRun all;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> factor(1, deviation);
  for (int k = 0; k < 9; ++k) {
    // Each action on a stage of its own would be another schedule: stages vary, by iteration.
    Costs own = costs;
    for (StageCosts& stage : own.stages) {
      for (auto* ns : {&stage.forward_ns, &stage.backward_input_ns, &stage.backward_weight_ns}) {
        *ns = std::llround(static_cast<double>(*ns) * factor(random));
      }
    }
    RecordedRun one = run_of(schedule, own);
    RecordedIteration iteration = one.iterations.front();
    const std::int64_t at_ns = 1'000'000'000LL * k;
    iteration.number = k;
    iteration.start_ns = at_ns;
    iteration.begin = all.spans.size();
    for (Span span : one.spans) {
      span.iteration = k;
      for (auto* time : {&span.start_ns, &span.end_ns}) *time += at_ns;
      if (span.has_input()) {
        span.input_sent_ns += at_ns;
        span.input_arrival_ns += at_ns;
      }
      all.spans.push_back(span);
    }
    iteration.end = all.spans.size();
    if (k == 0) {
      static_cast<TimelineFrame&>(all) = one;
      all.name = "measured";
      all.about = one.about;
      all.about.source = Source::measured;
    }
    all.iterations.push_back(iteration);
  }
  return all;
}

TEST(Diagnosis, WhatVariesFromIterationToIterationIsNoise) {
  const Schedule schedule = generate({"1f1b", 4, 8});
  const Costs planned = planned_costs(4);
  const RecordedRun prediction = run_of(schedule, planned);
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Comparison comparison = compare(prediction, varied(schedule, planned, 0.03, seed));
    const std::int64_t makespan_ns = prediction.iterations.front().makespan_ns;
    for (const RootCause& cause : comparison.root_causes) {
      EXPECT_LT(std::abs(cause.effect_ns), makespan_ns / 100) << seed << ": " << cause.why;
    }
  }
}

TEST(Diagnosis, AFaultStandsOutFromNoise) {
  const Schedule schedule = generate({"zb-h1", 4, 8});
  const Costs planned = planned_costs(4);
  Costs costs = planned;
  costs.stages[2].forward_ns += 2'000'000;
  const RecordedRun prediction = run_of(schedule, planned);
  const auto effect_ns =
      static_cast<double>(run_of(schedule, costs).iterations.front().makespan_ns -
                          prediction.iterations.front().makespan_ns);
  for (unsigned seed = 1; seed <= 10; ++seed) {
    const Comparison comparison = compare(prediction, varied(schedule, costs, 0.02, seed));
    ASSERT_FALSE(comparison.root_causes.empty());
    EXPECT_EQ(comparison.root_causes.front().stage, 2);
    EXPECT_EQ(comparison.root_causes.front().kind, Kind::F);
    EXPECT_NEAR(static_cast<double>(comparison.root_causes.front().effect_ns), effect_ns,
                0.15 * effect_ns);
  }
}

// Iterations that follow each other are compared as they repeat themselves.
TEST(Diagnosis, OfIterationsThatFollowEachOther) {
  for (const char* family : {"1f1b", "zb-h2", "interleaved"}) {
    const Schedule schedule = generate({family, 4, 8});
    const Costs planned = planned_costs(schedule.stages());
    Costs costs = planned;
    costs.stages[1].backward_input_ns += 3'000'000;
    const RecordedRun prediction = run_of(schedule, planned, 5);
    const RecordedRun truth = run_of(schedule, costs, 5);
    const Comparison comparison = compare(prediction, truth);
    ASSERT_EQ(comparison.root_causes.size(), 1U) << family;
    EXPECT_EQ(comparison.root_causes.front().stage, 1);
    EXPECT_EQ(comparison.root_causes.front().effect_ns, comparison.gap.total_ns());
    EXPECT_EQ(comparison.noise.effect_ns, 0);
  }
}

TEST(Diagnosis, APredictionOfOneIterationIsToldFromSeveral) {
  const Schedule schedule = generate({"zb-h2", 4, 8});
  const Costs costs = planned_costs(4);
  const Comparison comparison = compare(run_of(schedule, costs), run_of(schedule, costs, 5));
  EXPECT_LT(comparison.gap.total_ns(), 0);
  ASSERT_EQ(comparison.root_causes.size(), 1U);
  EXPECT_EQ(comparison.root_causes.front().term, Term::launch);
  EXPECT_EQ(comparison.root_causes.front().rank, -1);
  EXPECT_EQ(comparison.root_causes.front().effect_ns, comparison.gap.total_ns());
}

}  // namespace
}  // namespace pipesim
