// Random shapes of every family at random costs, against two independent interpreters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/engine/simulate.h"
#include "sim/schedule/lower.h"
#include "tests/errors.h"
#include "tests/families.h"
#include "tests/oracle.h"
#include "tests/random_schedule.h"
#include "tests/transfer_oracle.h"

namespace pipesim {
namespace {

using testing::pick;

// How many shapes are tried; more by PIPESIM_RANDOM_FAMILIES.
int random_shapes() {
  const char* text = std::getenv("PIPESIM_RANDOM_FAMILIES");
  return text == nullptr ? 500 : std::atoi(text);
}

// A shape that the family has, in most cases one that runs.
ScheduleRequest random_request(const Family& family, std::mt19937_64& random) {
  const std::vector<int> chunks = testing::chunk_counts(family);
  for (;;) {
    ScheduleRequest request{std::string(family.name), static_cast<int>(pick(random, 1, 6)),
                            static_cast<int>(pick(random, 1, 16))};
    request.chunks = chunks[static_cast<std::size_t>(pick(random, 0, std::ssize(chunks) - 1))];
    if (family.takes_group) {
      request.overlap_experts = pick(random, 0, 2) == 0;
      if (pick(random, 0, 2) == 0) request.group = static_cast<int>(pick(random, 1, 8));
    }
    if (testing::error_of([&] { resolve_shape(family, request); }) == testing::no_error) {
      return request;
    }
  }
}

std::string text_of(const ScheduleRequest& request) {
  return fmt::format("{} p{} v{} m{} g{}{}", request.name, request.ranks,
                     request.chunks.value_or(0), request.microbatches, request.group.value_or(0),
                     request.overlap_experts ? " overlapped experts" : "");
}

// Start and end of what ranks compute, and, where `sends`, of transfers.
oracle::Times times_of(const Schedule& schedule, const Costs& costs, SimulationOptions options,
                       bool sends) {
  oracle::Times times;
  options.sink = [&](const Span& span) {
    const Action& action = span.action;
    if (!is_compute(action.kind) && !(sends && is_send(action.kind))) return;
    times[{action.stage, action.kind, action.microbatch}] = {span.start_ns, span.end_ns};
  };
  simulate(schedule, costs, options);
  return times;
}

void expect_as_by_the_oracle(const Schedule& schedule, const Costs& costs) {
  const auto truth = oracle::run(schedule, costs);
  if (!truth) {
    EXPECT_NE(testing::input_error_of([&] { simulate(schedule, costs); }).find("deadlock: "),
              std::string::npos);
    return;
  }
  oracle::Times want;
  for (const auto& [key, when] : truth->times) want[key] = {when.start, when.end};
  EXPECT_EQ(times_of(schedule, costs, {}, false), want);
  const Metrics metrics = simulate(schedule, costs);
  EXPECT_EQ(metrics.makespan_ns, truth->makespan);
  for (std::size_t r = 0; r < truth->ranks.size(); ++r) {
    EXPECT_EQ(metrics.ranks[r].busy_ns, truth->ranks[r].busy);
    EXPECT_EQ(metrics.ranks[r].peak_activation_chunks, truth->ranks[r].peak_chunks);
    EXPECT_EQ(metrics.ranks[r].peak_activation_bytes, truth->ranks[r].peak_bytes);
  }
}

// The same by explicit transfers, however they hold ranks up; returns whether it runs.
bool expect_as_by_the_transfer_oracle(const Schedule& schedule, const Costs& costs,
                                      std::mt19937_64& random) {
  Schedule program;
  if (testing::error_of([&] { program = lower(schedule); }) != testing::no_error) return false;
  EXPECT_FALSE(find_fault(program));
  for (const P2p mode : {P2p::blocking, P2p::fifo, P2p::edge_fifo}) {
    SCOPED_TRACE(p2p_name(mode));
    SimulationOptions options;
    options.transfers = {mode, pick(random, 0, 1) * pick(random, 0, 60)};
    const auto truth = oracle::run_with_transfers(program, costs, options.transfers);
    EXPECT_TRUE(truth);
    if (truth) {
      EXPECT_EQ(times_of(program, costs, options, true), *truth);
    }
  }
  return true;
}

TEST(RandomFamilies, TakeTheTimeThatOraclesSay) {
  std::mt19937_64 random(41);
  const std::vector<Family>& all = all_families();
  int ran = 0;
  for (int i = 0; i < random_shapes(); ++i) {
    const Family& family = all[static_cast<std::size_t>(i) % all.size()];
    const ScheduleRequest request = random_request(family, random);
    const Schedule schedule = generate(request);
    Costs costs = testing::random_costs(random, schedule);
    testing::take_time(costs);  // the oracle tells what is held by the clock
    testing::add_messages(costs, random);
    SCOPED_TRACE(fmt::format("case {}, {}\n{}", i, text_of(request), to_json(costs)));
    expect_as_by_the_oracle(schedule, costs);
    ran += expect_as_by_the_transfer_oracle(schedule, costs, random) ? 1 : 0;
    if (HasFailure()) break;
  }
  EXPECT_GT(ran, random_shapes() * 9 / 10);
}

}  // namespace
}  // namespace pipesim
