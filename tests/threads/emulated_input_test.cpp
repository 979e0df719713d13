// Emulated runs of input pipelines: they keep to program and costs.
#include "exec/input_pipeline/emulated_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include "exec/input_pipeline/input_session.h"
#include "exec/input_pipeline/input_worker.h"
#include "exec/run/ranks.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/input_pipeline/predict/simulate_input.h"
#include "tests/errors.h"

namespace pipesim {
namespace {

using enum Kind;
using exec::EmulatedInput;
using exec::EmulatedNetwork;
using exec::InputJob;
using exec::Transport;
using testing::input_error_of;

constexpr std::int64_t ms = 1'000'000;

InputCosts costs_of(int ranks) {
  InputCosts costs;
  costs.work.resize(static_cast<std::size_t>(ranks));
  return costs;
}

// Rank 1 copies longer, so that it comes later to the exchange, on which nothing of its own is
// waited for but bytes of its own.
TEST(EmulatedInput, KeepsToCostsAndMeetings) {
  InputCosts costs = costs_of(2);
  costs.links = {{"wire 0", 1'000'000'000}, {"wire 1", 1'000'000'000}};
  for (int rank = 0; rank < 2; ++rank) {
    costs.of(rank, NEXT).duration_ns = 1 * ms;
    costs.of(rank, COPY).duration_ns = (rank == 0 ? 1 : 5) * ms;
    costs.of(rank, COPY).host_ns = 1 * ms;
    costs.of(rank, SPLITS) = {.duration_ns = 2 * ms,
                              .bytes = (rank == 0 ? 3 : 1) * ms,  // a byte a nanosecond
                              .links = {static_cast<std::uint32_t>(rank)},
                              .host_ns = 0};
    costs.of(rank, READ).duration_ns = 1 * ms;
  }
  InputProgram program;
  program.batches = 1;
  program.calls.assign(2, {{input_action(NEXT, 0), InputStream::host, {}},
                           {input_action(COPY, 0), InputStream::memcpy, {0}},
                           {input_action(SPLITS, 0), InputStream::data_dist, {1}},
                           {input_action(READ, 0), InputStream::host, {2}}});
  std::vector<std::vector<InputSpan>> spans(2);
  EmulatedNetwork network(costs);
  exec::run_as_threads(2, {}, [&](Transport& transport) {
    EmulatedInput emulated(costs, transport.rank(), network);
    spans[static_cast<std::size_t>(transport.rank())] =
        exec::InputWorker(program, transport, emulated).run();
  });
  const auto took = [](const InputSpan& span) { return span.end_ns - span.start_ns; };
  const std::int64_t met_ns = std::max(spans[0][2].ready_ns, spans[1][2].ready_ns);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto& [next, copy, splits, read] =
        std::to_array({spans[rank][0], spans[rank][1], spans[rank][2], spans[rank][3]});
    EXPECT_GE(took(next), 1 * ms);
    EXPECT_GE(copy.issued_ns - copy.called_ns, 1 * ms);
    EXPECT_GE(copy.ready_ns, copy.issued_ns);
    EXPECT_GE(took(copy), (rank == 0 ? 1 : 5) * ms);
    EXPECT_GE(splits.ready_ns, copy.end_ns);
    EXPECT_GE(splits.end_ns - met_ns, (rank == 0 ? 5 : 3) * ms);
    EXPECT_GE(read.ready_ns, splits.end_ns);
    EXPECT_GE(took(read), 1 * ms);
  }
}

// Ranks come to a transfer one after the other, each over a link of its own and one that has room
// for all: what those that came before make of the time since takes none of it away. Where threads
// come later than that, since others have the processors, they come again.
TEST(EmulatedInput, LetsTransfersOfLaterRanksEndOnTime) {
  constexpr std::uint32_t ranks = 8;
  constexpr std::int64_t takes_ns = 200 * ms;
  InputCosts costs = costs_of(ranks);
  costs.links.assign(ranks, {"", 1'000'000'000});
  costs.links.push_back({"", ranks * 1'000'000'000LL});
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    costs.of(static_cast<int>(rank), OUTPUT).links = {rank, ranks};
  }
  bool came_in_time = false;
  constexpr int max_attempts = 50;
  for (int attempt = 0; attempt < max_attempts && !came_in_time; ++attempt) {
    EmulatedNetwork network(costs);
    std::vector<std::int64_t> came(ranks), ends(ranks);
    const std::int64_t start_ns = exec::Clock::monotonic_ns();
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        came[rank] = exec::Clock::monotonic_ns();
        ends[rank] =
            network.transfer(costs.of(static_cast<int>(rank), OUTPUT).links, takes_ns, start_ns);
      });
    }
    threads.clear();
    came_in_time = std::ranges::max(came) <= start_ns + takes_ns / 2;
    if (!came_in_time) continue;
    for (const std::int64_t end : ends) EXPECT_EQ(end, start_ns + takes_ns);
  }
  EXPECT_TRUE(came_in_time);
}

// A transfer that began a moment ago loses nothing to what has begun since on links that no action
// joins with its own.
TEST(EmulatedInput, KeepsLinksApartThatNoActionJoins) {
  InputCosts costs = costs_of(2);
  costs.links.assign(4, {"", 1'000'000'000});
  costs.of(0, COPY).links = {0};
  costs.of(0, IDS).links = {3, 1};
  costs.of(1, IDS).links = {1, 2};
  EmulatedNetwork network(costs);
  const std::int64_t start_ns = exec::Clock::monotonic_ns();
  const auto end_of = [&](int rank, Kind kind, std::int64_t begin_ns) {
    return network.transfer(costs.of(rank, kind).links, 1 * ms, begin_ns) - start_ns;
  };
  EXPECT_EQ(end_of(0, IDS, start_ns + 5 * ms), 6 * ms);
  EXPECT_EQ(end_of(0, COPY, start_ns), 1 * ms);
  EXPECT_EQ(end_of(1, IDS, start_ns), 7 * ms);  // from where time has gone on its links
}

TEST(EmulatedInput, RefusesLinksOfOtherProcesses) {
  InputCosts costs = costs_of(3);
  costs.links = {{"nic 0", 1000}, {"nic 1", 1000}};
  costs.of(0, IDS).links = {0};
  costs.of(0, OUTPUT).links = {0};
  costs.of(1, IDS).links = {1};
  exec::check_links_apart(costs);
  costs.of(2, OUTPUT).links = {1};
  EXPECT_EQ(input_error_of([&] { exec::check_links_apart(costs); }),
            "link 'nic 1' is shared by ranks 1 and 2, which are processes that don't see what each "
            "other sends; give --transport local");
}

// Whatever is late on an emulated device makes nothing else early: each call ends when a prediction
// says, or later.
class EmulatedPrograms : public ::testing::TestWithParam<std::string> {};

TEST_P(EmulatedPrograms, EndNoEarlierThanPredicted) {
  constexpr int ranks = 3;
  InputJob job;
  job.program = make_input_program(
      {.name = GetParam(), .ranks = ranks, .batches = 5, .accumulate = 2, .stages = {}});
  std::mt19937 random(7);
  job.costs = costs_of(ranks);
  job.costs->batch_size = 10;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Kind kind : input_kinds) {
      InputWork& work = job.costs->of(rank, kind);
      work.duration_ns = random() % 400'000;
      if (!is_of_host(kind)) work.host_ns = random() % 50'000;
    }
  }
  const InputRun predicted = simulate_input(job.program, *job.costs);
  exec::InputProcess process(job, true);
  InputRun run;
  exec::run_as_threads(
      ranks, {},
      [&](Transport& transport) {
        auto result = run_input_session(job, process, transport, [](int, double) {});
        if (transport.rank() == 0) run = std::move(result.run);
      },
      exec::Processors::shared);
  EXPECT_TRUE(run.is_measured);
  EXPECT_EQ(run.batch_size, 10);
  ASSERT_EQ(run.spans.size(), ranks);
  std::map<std::pair<Kind, std::int32_t>, std::int64_t> last_ready;
  for (int rank = 0; rank < ranks; ++rank) {
    const InputCalls& calls = job.program.calls[static_cast<std::size_t>(rank)];
    for (std::size_t place = 0; place < calls.size(); ++place) {
      const Kind kind = calls[place].action.kind;
      const std::int32_t batch = calls[place].action.microbatch;
      const InputSpan& span = run.span(rank, place);
      const InputSpan& earliest = predicted.span(rank, place);
      EXPECT_GE(span.issued_ns, earliest.issued_ns) << to_text(calls[place].action);
      EXPECT_GE(span.start_ns, earliest.start_ns) << to_text(calls[place].action);
      EXPECT_GE(span.end_ns, earliest.end_ns) << to_text(calls[place].action);
      EXPECT_LE(span.ready_ns, span.start_ns);
      EXPECT_GE(span.end_ns - span.start_ns, job.costs->of(rank, kind).duration_ns);
      std::int64_t& last = last_ready[{kind, batch}];
      last = std::max(last, span.ready_ns);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const InputCalls& calls = job.program.calls[static_cast<std::size_t>(rank)];
    for (std::size_t place = 0; place < calls.size(); ++place) {
      const Kind kind = calls[place].action.kind;
      const std::int32_t batch = calls[place].action.microbatch;
      if (!is_meeting(kind)) continue;
      const std::int64_t met_ns = last_ready[{kind, batch}];
      EXPECT_EQ(run.span(rank, place).start_ns, met_ns);
    }
  }
}

std::vector<std::string> emulated_names() {
  std::vector<std::string> names;
  for (const InputFamily& family : all_input_families()) {
    if (family.name != "staged") names.emplace_back(family.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Programs, EmulatedPrograms, ::testing::ValuesIn(emulated_names()));

}  // namespace
}  // namespace pipesim
