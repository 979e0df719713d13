// Runs of input pipelines compared as operations: the gap sums exactly, and a slow call is found.
#include "sim/compare/join_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "sim/compare/comparison.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/input_pipeline/predict/simulate_input.h"
#include "tests/input_runs.h"
#include "tests/random_schedule.h"
#include "tests/thorough.h"

namespace pipesim {
namespace {

using testing::pick;
using CallTimes = std::vector<std::vector<InputCallTime>>;

InputProgram any_program(std::mt19937_64& random) {
  const auto ranks = static_cast<int>(pick(random, 1, 4));
  const auto batches = static_cast<int>(pick(random, 2, 5));
  const auto accumulate = static_cast<int>(pick(random, 1, 3));
  const auto& families = all_input_families();
  const auto which = static_cast<std::size_t>(pick(random, 0, std::ssize(families)));
  if (which == families.size()) return testing::overlapping_program(ranks, batches, accumulate);
  return make_input_program({std::string(families[which].name), ranks, batches});
}

// Of each call by itself.
CallTimes any_times(const InputProgram& program, std::mt19937_64& random) {
  CallTimes times;
  for (const InputCalls& calls : program.calls) {
    auto& own = times.emplace_back();
    for (const InputCall& call : calls) {
      const bool on_host = call.stream == InputStream::host;
      own.push_back({on_host ? 0 : pick(random, 0, 50), pick(random, 0, 1000)});
    }
  }
  return times;
}

Comparison comparison_of(const InputRun& one, const InputRun& other) {
  return compare(as_recorded(one, "one"), as_recorded(other, "other"));
}

TEST(InputComparisons, RunsAreReplayedToTheNanosecondAndTheGapSums) {
  std::mt19937_64 random(71);
  const int count = testing::cases(120, 500);
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    const InputProgram program = any_program(random);
    const InputRun one = testing::random_run(program, random);
    InputRun other = testing::random_run(program, random);
    other.is_measured = pick(random, 0, 1) == 0;
    const Comparison comparison = comparison_of(one, other);
    EXPECT_EQ(comparison.sides[predicted_side].makespan_ns, makespan_of(one));
    EXPECT_EQ(comparison.sides[measured_side].makespan_ns, makespan_of(other));
    EXPECT_EQ(comparison.gap.total_ns(), makespan_of(other) - makespan_of(one));
    for (const Side side : both_sides) {
      const CriticalPath& path = comparison.sides[side].critical_path;
      EXPECT_EQ(path.compute_ns + path.p2p_ns + path.other_ns, comparison.sides[side].makespan_ns);
      EXPECT_FALSE(comparison.sides[side].played.critical_path.empty());
    }
    // Shares are sampled, and each is rounded.
    std::int64_t sum = comparison.noise.effect_ns;
    for (const RootCause& cause : comparison.root_causes) sum += cause.effect_ns;
    if (std::ssize(comparison.root_causes) < 50) {
      EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(comparison.gap.total_ns()), 60);
    }
    if (HasFailure()) break;
  }
}

TEST(InputComparisons, ASlowCallIsTheCause) {
  std::mt19937_64 random(72);
  int found = 0, slow = 0;
  std::vector<double> errors;
  const int count = testing::cases(120, 500);
  for (int i = 0; i < count; ++i) {
    const InputProgram program = any_program(random);
    const CallTimes times = any_times(program, random);
    CallTimes slower = times;
    const auto rank = static_cast<std::size_t>(pick(random, 0, program.ranks() - 1));
    const auto place = static_cast<std::size_t>(pick(random, 0, std::ssize(slower[rank]) - 1));
    slower[rank][place].duration_ns += 5000;
    const InputRun predicted = replay_input(program, times);
    const InputRun measured = replay_input(program, slower);
    const Comparison comparison = comparison_of(predicted, measured);
    const std::int64_t lost = makespan_of(measured) - makespan_of(predicted);
    if (lost == 0) {
      EXPECT_TRUE(comparison.root_causes.empty() || comparison.root_causes.front().effect_ns == 0);
      continue;
    }
    ++slow;
    ASSERT_FALSE(comparison.root_causes.empty()) << i;
    const RootCause& first = comparison.root_causes.front();
    const Action& action = program.calls[rank][place].action;
    const bool is_right = first.rank == static_cast<std::int32_t>(rank) &&
                          first.kind == action.kind &&
                          first.microbatch.value_or(action.microbatch) == action.microbatch;
    found += is_right ? 1 : 0;
    errors.push_back(std::abs(static_cast<double>(first.effect_ns - lost)) /
                     static_cast<double>(lost));
  }
  EXPECT_GT(slow, count / 2);
  EXPECT_GE(found, slow * 98 / 100);
  std::ranges::sort(errors);
  EXPECT_LE(errors[errors.size() / 2], 0.02);
}

// What half of the ranks do faster is theirs, and all others take as long as before.
TEST(InputComparisons, HalfOfTheRanksAreNotAll) {
  std::mt19937_64 random(75);
  const InputProgram program = make_input_program({"base", 2, 8});
  CallTimes times = any_times(program, random);
  times[1] = times[0];
  CallTimes faster = times;
  for (std::size_t place = 0; place < faster[1].size(); ++place) {
    if (program.calls[1][place].action.kind == Kind::TOP) {
      times[0][place].duration_ns = times[1][place].duration_ns = 9000;
      faster[0][place].duration_ns = 9000;
      faster[1][place].duration_ns = 3000;
    }
  }
  const Comparison comparison =
      comparison_of(replay_input(program, times), replay_input(program, faster));
  for (const RootCause& cause : comparison.root_causes) {
    EXPECT_EQ(cause.rank, 1) << cause.why;
    EXPECT_EQ(cause.kind, Kind::TOP) << cause.why;
  }
}

TEST(InputComparisons, TheHostIsACauseOfItsOwn) {
  std::mt19937_64 random(73);
  const InputProgram program = make_input_program({"sparse-dist", 2, 12});
  const CallTimes times = any_times(program, random);
  CallTimes slower = times;
  for (InputCallTime& call : slower[1]) call.host_ns *= 100;
  const Comparison comparison =
      comparison_of(replay_input(program, times), replay_input(program, slower));
  ASSERT_FALSE(comparison.root_causes.empty());
  for (const RootCause& cause : comparison.root_causes) {
    EXPECT_EQ(cause.rank, 1);
    EXPECT_EQ(cause.kind, Kind::IDLE);  // a call
  }
}

TEST(InputComparisons, RunsThatAreAlikeHaveNoCause) {
  std::mt19937_64 random(74);
  const InputRun run = testing::random_run(testing::overlapping_program(3, 5), random);
  const Comparison comparison = comparison_of(run, run);
  EXPECT_TRUE(comparison.root_causes.empty());
  EXPECT_EQ(comparison.gap.total_ns(), 0);
}

}  // namespace
}  // namespace pipesim
