// SimGrid as an oracle: another simulator's program of the same 1F1B problem
// must come to the same makespan, alone on its links and sharing them.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "tests/command.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

struct Problem {
  int stages;
  int microbatches;
  std::int64_t forward_ns;
  std::int64_t backward_ns;
  std::int64_t latency_ns;
  std::int64_t bytes = 0;  // 0: a transfer takes its latency
  std::int64_t bytes_per_second = 1;
};

// Within `tolerance` of the makespan.
void expect_simgrids_makespan(const Problem& problem, double tolerance) {
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  std::vector<std::string> command{
      PIPESIM_SIMGRID,          text(problem.stages),      text(problem.microbatches),
      text(problem.forward_ns), text(problem.backward_ns), text(problem.latency_ns)};
  if (problem.bytes > 0) {
    command.insert(command.end(), {text(problem.bytes), text(problem.bytes_per_second)});
  }
  const testing::Outcome outcome = testing::run_command(command);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  StageCosts stage;
  stage.forward_ns = problem.forward_ns;
  stage.split_backward(problem.backward_ns);
  stage.output_bytes = problem.bytes;
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(problem.stages), stage);
  costs.p2p = {problem.latency_ns, problem.bytes_per_second};
  const Schedule schedule = generate({"1f1b", problem.stages, problem.microbatches});
  SimulationOptions by_events;
  by_events.always_by_events = true;
  const std::int64_t own = simulate(schedule, costs).makespan_ns;
  EXPECT_EQ(simulate(schedule, costs, by_events).makespan_ns, own);
  const double theirs = std::stod(outcome.out) * 1e6;
  EXPECT_NEAR(static_cast<double>(own), theirs, theirs * tolerance)
      << problem.stages << " stages, " << problem.microbatches << " microbatches, F "
      << problem.forward_ns << " B " << problem.backward_ns << " latency " << problem.latency_ns
      << " bytes " << problem.bytes << " rate " << problem.bytes_per_second;
}

TEST(SimGrid, RecordedMakespans) {
  for (const auto& [p, m] : {std::pair(8, 64), std::pair(64, 256)}) {
    expect_simgrids_makespan({p, m, 1'000'000, 2'000'000, 45'000}, 1e-12);
  }
}

// SimGrid counts seconds in double precision and lets a transfer end once few
// enough bytes are left; both add up along a chain of transfers.
TEST(SimGrid, TransfersThatShareTheirLink) {
  std::mt19937_64 random(41);
  for (int i = 0; i < 60; ++i) {
    Problem problem{};
    problem.stages = static_cast<int>(testing::pick(random, 2, 12));
    problem.microbatches = static_cast<int>(testing::pick(random, 1, 40));
    problem.forward_ns = testing::pick(random, 1, 20) * 100'000;
    problem.backward_ns = testing::pick(random, 1, 40) * 100'000;
    problem.latency_ns = testing::pick(random, 0, 9) * 10'000;
    // From a tenth of a forward to thirty times as long.
    problem.bytes = testing::pick(random, 100'000, 30'000'000);
    problem.bytes_per_second = 1'000'000'000 * testing::pick(random, 1, 3);
    expect_simgrids_makespan(problem, 1e-6);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace pipesim
