// Transfers that meet, queue, share links, slow compute down and fill buffers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/prepare.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/program_text.h"
#include "tests/errors.h"
#include "tests/random_schedule.h"
#include "tests/transfer_oracle.h"
#include "traces/action_key.h"

namespace pipesim {
namespace {

using testing::costs_of;
using testing::pick;

// How many random programs each test tries; more by PIPESIM_RANDOM_PROGRAMS.
int random_programs() {
  const char* text = std::getenv("PIPESIM_RANDOM_PROGRAMS");
  return text == nullptr ? 2000 : std::atoi(text);
}

SimulationOptions with(P2p mode, std::int64_t eager_limit_bytes = 0) {
  SimulationOptions options;
  options.transfers = {mode, eager_limit_bytes};
  return options;
}

oracle::Times transfer_times(const Schedule& program, const Costs& costs,
                             SimulationOptions options) {
  oracle::Times times;
  options.sink = [&](const Span& span) {
    const Action& a = span.action;
    if (is_compute(a.kind) || is_send(a.kind)) {
      times[{a.stage, a.kind, a.microbatch}] = {span.start_ns, span.end_ns};
    }
  };
  simulate(program, costs, options);
  return times;
}

// ---- By hand

// F 10, B 20, hop 3. Blocking: rank 0 is held by its SEND until 13, then does
// its second F until 23 and offers it; rank 1 does F0 13-23, B0 23-43.
TEST(Transfers, ByHand) {
  const Schedule program = parse_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n",
      "p.csv");
  const Costs costs = costs_of(2, 10, 20, 3);
  const oracle::Times blocking = transfer_times(program, costs, with(P2p::blocking));
  EXPECT_EQ(blocking.at({0, Kind::SEND_F, 0}), std::pair(std::int64_t{10}, std::int64_t{13}));
  EXPECT_EQ(blocking.at({0, Kind::SEND_F, 1}), std::pair(std::int64_t{23}, std::int64_t{26}));
  EXPECT_EQ(blocking.at({1, Kind::F, 1}), std::pair(std::int64_t{26}, std::int64_t{36}));
  EXPECT_EQ(blocking.at({1, Kind::SEND_B, 0}), std::pair(std::int64_t{56}, std::int64_t{59}));
  EXPECT_EQ(blocking.at({1, Kind::B, 1}), std::pair(std::int64_t{59}, std::int64_t{79}));
  EXPECT_EQ(blocking.at({0, Kind::B, 1}), std::pair(std::int64_t{82}, std::int64_t{102}));
  // Streams of their own: F1 follows F0 at once, and so does B1 after B0.
  const oracle::Times fifo = transfer_times(program, costs, with(P2p::fifo));
  EXPECT_EQ(fifo.at({0, Kind::F, 1}), std::pair(std::int64_t{10}, std::int64_t{20}));
  EXPECT_EQ(fifo.at({1, Kind::F, 1}), std::pair(std::int64_t{23}, std::int64_t{33}));
  EXPECT_EQ(fifo.at({1, Kind::B, 1}), std::pair(std::int64_t{53}, std::int64_t{73}));
  EXPECT_EQ(fifo.at({0, Kind::B, 1}), std::pair(std::int64_t{76}, std::int64_t{96}));
}

// One communication stream delivers in order: a gradient that is ready waits
// for an activation that is not.
TEST(Transfers, FifoHoldsWhatStandsBehind) {
  const Schedule program = parse_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1SEND_B1\n",
      "p.csv");
  Costs costs = costs_of(2, 1, 2, 1);
  costs.stages[0].forward_ns = 100;
  // F0 ends on rank 1 at 102, B0 at 104; F1 is sent at 200 and there at 201.
  EXPECT_EQ(transfer_times(program, costs, with(P2p::fifo)).at({1, Kind::SEND_B, 0}).first, 201);
  EXPECT_EQ(transfer_times(program, costs, with(P2p::edge_fifo)).at({1, Kind::SEND_B, 0}).first,
            104);
  EXPECT_EQ(transfer_times(program, costs, with(P2p::async)).at({1, Kind::SEND_B, 0}).first, 104);
}

// Both ranks come to a SEND that the other does not receive yet.
TEST(Transfers, EagerSendsCompleteByThemselves) {
  const Schedule program = parse_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
      "p.csv");
  Costs costs = costs_of(2, 10, 20, 3);
  costs.stages[0].output_bytes = 8;
  // Eight bytes are not fewer than eight.
  EXPECT_EQ(testing::input_error_of([&] { simulate(program, costs, with(P2p::blocking, 8)); }),
            "p.csv: deadlock: 0SEND_F1 on rank 0 waits for 1RECV_F1, which comes after 1SEND_B0 "
            "on rank 1; 1SEND_B0 on rank 1 waits for 0RECV_B0, which comes after 0SEND_F1 on "
            "rank 0");
  const oracle::Times eager = transfer_times(program, costs, with(P2p::blocking, 9));
  EXPECT_EQ(eager.at({0, Kind::SEND_F, 0}), std::pair(std::int64_t{10}, std::int64_t{13}));
  EXPECT_EQ(eager.at({0, Kind::F, 1}), std::pair(std::int64_t{10}, std::int64_t{20}));
  EXPECT_EQ(eager.at({1, Kind::SEND_B, 0}), std::pair(std::int64_t{43}, std::int64_t{46}));
  EXPECT_EQ(eager.at({1, Kind::F, 1}), std::pair(std::int64_t{43}, std::int64_t{53}));
  EXPECT_EQ(eager.at({0, Kind::B, 0}), std::pair(std::int64_t{46}, std::int64_t{66}));
  EXPECT_EQ(eager.at({0, Kind::B, 1}), std::pair(std::int64_t{76}, std::int64_t{96}));
}

// Ranks 0 and 1 send through one card of a byte a nanosecond: 0F1 leaves at
// 200 and shares it with 1F0, which leaves at 300 with rank 0's bytes half gone.
TEST(Transfers, TwoRanksShareANetworkCard) {
  const Schedule schedule = generate({"gpipe", 3, 1});
  Costs costs = costs_of(3, 100, 200);
  for (StageCosts& stage : costs.stages) stage.output_bytes = 200;
  costs.shared_links = {{"card", 1'000'000'000}};
  for (const auto& edge : {std::pair(0, 1), std::pair(1, 2)}) costs.edges[edge] = {0, {}, {0}};
  const oracle::Times alone = transfer_times(schedule, costs, {});
  EXPECT_EQ(alone.at({0, Kind::SEND_F, 0}), std::pair(std::int64_t{100}, std::int64_t{300}));
  EXPECT_EQ(alone.at({1, Kind::SEND_F, 0}), std::pair(std::int64_t{400}, std::int64_t{600}));
  // Gradients do not go through it.
  EXPECT_EQ(alone.at({2, Kind::SEND_B, 0}), std::pair(std::int64_t{900}, std::int64_t{900}));

  const oracle::Times both = transfer_times(generate({"gpipe", 3, 4}), costs, {});
  // By hand, starts at 100, 200, 300, 400 from rank 0, 200 bytes each: F0 alone
  // until 200, then with F1 a half each: F0's last 100 gone at 300+100. F1 at
  // 300: 150 left; F0 50 left; three from 300: F0 gone at 450, less for F3 from
  // 400 on: at 400 F0 16.67, F1 116.67, F2 166.67, F3 200 left, a quarter each:
  // F0 gone at 466.67.
  EXPECT_EQ(both.at({0, Kind::SEND_F, 0}).second, 467);
}

// Two transfers on one edge's own link, the second 100 after the first.
TEST(Transfers, AsynchronousTransfersShareTheirLink) {
  Costs costs = costs_of(2, 100, 200, 7);
  costs.stages[0].output_bytes = 300;
  costs.p2p.bytes_per_second = 1'000'000'000;
  const oracle::Times times = transfer_times(generate({"gpipe", 2, 2}), costs, {});
  // Alone 100-200, then halves: the first ends at 600, the second at 700.
  EXPECT_EQ(times.at({0, Kind::SEND_F, 0}), std::pair(std::int64_t{100}, std::int64_t{607}));
  EXPECT_EQ(times.at({0, Kind::SEND_F, 1}), std::pair(std::int64_t{200}, std::int64_t{707}));
}

// Slowed by a half: 1 nanosecond of work takes 1.5 while a transfer is there.
TEST(Transfers, ComputeIsSlowerWhileATransferOverlaps) {
  Costs costs = costs_of(2, 100, 200, 30);
  costs.compute_slowdown_ppm = 500'000;
  const oracle::Times times = transfer_times(generate({"gpipe", 2, 2}), costs, {});
  // F1 on rank 0: 30 slowed are 20 of work, the other 80 at full speed.
  EXPECT_EQ(times.at({0, Kind::F, 1}), std::pair(std::int64_t{100}, std::int64_t{210}));
  // F0 on rank 1 from 130; the second transfer is there from 210 to 240:
  // 80 + 20 at 240.
  EXPECT_EQ(times.at({1, Kind::F, 0}), std::pair(std::int64_t{130}, std::int64_t{240}));
  // A transfer that takes no time slows nothing.
  costs.p2p.latency_ns = 0;
  EXPECT_EQ(simulate(generate({"gpipe", 2, 2}), costs).makespan_ns,
            simulate(generate({"gpipe", 2, 2}), costs_of(2, 100, 200)).makespan_ns);
}

// ---- Memory

TEST(Transfers, MemoryByHand) {
  Costs costs = costs_of(2, 100, 200, 10);
  for (StageCosts& stage : costs.stages) {
    stage.activation_bytes = 1000;
    stage.output_bytes = 30;
  }
  const Metrics metrics = simulate(generate({"gpipe", 2, 2}), costs);
  // Rank 0: its second F starts at 100 with the first's result in its send
  // buffer, until 110: 2000 + 30. The first gradient comes from 510 to 520 and
  // is needed until B0 ends at 720; the second comes from 710 on: 2000 + 60.
  EXPECT_EQ(metrics.ranks[0].peak_memory.bytes, (WorkingBytes{2000, 0, 0, 60}));
  EXPECT_EQ(to_text(metrics.ranks[0].peak_memory.action), "0RECV_B1");
  EXPECT_EQ(metrics.ranks[0].peak_memory.time_ns, 710);
  // Rank 1: F1's input waits in a receive buffer from 200; F0 ends at 210, and
  // F1 takes its input over. B0 ends at 510: 1000 + 30 to send.
  EXPECT_EQ(metrics.ranks[1].peak_memory.bytes, (WorkingBytes{2000, 0, 0, 0}));
  EXPECT_EQ(to_text(metrics.ranks[1].peak_memory.action), "1F1");
  EXPECT_EQ(metrics.ranks[1].peak_memory.time_ns, 210);
}

TEST(Transfers, ASendBufferLivesUntilItIsReceived) {
  const Schedule program = parse_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
      "p.csv");
  Costs costs = costs_of(2, 100, 200, 10);
  costs.stages[0].output_bytes = 30;
  // In a fifo rank 1 sends B0's gradient, at 410, before it receives F1.
  EXPECT_NE(testing::input_error_of([&] { simulate(program, costs, with(P2p::fifo)); }),
            testing::no_error);
  const Metrics metrics = simulate(program, costs, with(P2p::edge_fifo));
  EXPECT_EQ(metrics.ranks[0].peak_memory.bytes, (WorkingBytes{0, 0, 30, 0}));
  // F1's input waits from 200 on, until at 410 F1 takes it over and B0's result
  // takes its place in a send buffer.
  EXPECT_EQ(metrics.ranks[1].peak_memory.bytes, (WorkingBytes{0, 0, 0, 30}));
  EXPECT_EQ(metrics.ranks[1].peak_memory.time_ns, 100);
}

// Of work without length the next iteration's messages begin at the instant at which the first
// ends; each iteration holds what it would alone.
TEST(Transfers, AnInstantMayEndAnIteration) {
  Costs costs = costs_of(2, 0, 0);
  for (StageCosts& stage : costs.stages) {
    stage.activation_bytes = 5;
    stage.output_bytes = 400;
  }
  for (const P2p mode : {P2p::async, P2p::blocking, P2p::fifo, P2p::edge_fifo}) {
    SimulationOptions options = with(mode);
    const Metrics alone = simulate(generate({"1f1b", 2, 1}), costs, options);
    options.iterations = 2;
    for (const bool by_events : {false, true}) {
      options.always_by_events = by_events;
      const Metrics first = simulate(generate({"1f1b", 2, 1}), costs, options);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(first.ranks[rank].peak_memory.total, alone.ranks[rank].peak_memory.total);
        EXPECT_EQ(first.ranks[rank].peak_memory.action, alone.ranks[rank].peak_memory.action);
      }
    }
  }
}

// ---- Random programs

// Its lists, and what waits for what beside.
std::string text_of(const Schedule& program) {
  return to_program_text(program, TransferLane::compute);
}

// A program, shuffled, perhaps with batches of transfers.
Schedule random_program(std::mt19937_64& random, bool batches) {
  Schedule program = lower(pick(random, 0, 4) == 0 ? testing::random_schedule_with_copies(random)
                                                   : testing::random_schedule(random));
  if (pick(random, 0, 2) > 0) testing::shuffle(program, random);
  if (!batches) return program;
  for (int r = 0; r < program.ranks(); ++r) {
    const auto list = program.actions[r];
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      if (is_transfer(list[i].kind) && is_transfer(list[i + 1].kind) && pick(random, 0, 1) == 0) {
        list[i].joined = true;
      }
    }
  }
  return program;
}

TEST(Transfers, AgreeWithTheOracle) {
  std::mt19937_64 random(31);
  int deadlocks = 0;
  for (int i = 0; i < random_programs(); ++i) {
    const bool batches = pick(random, 0, 3) == 0;
    Schedule program = random_program(random, batches);
    if (i % 3 == 0) testing::add_dependencies(program, random);
    Costs costs = testing::random_costs(random, program);
    testing::add_messages(costs, random);
    const Transfers transfers{static_cast<P2p>(pick(random, 1, 3)),
                              pick(random, 0, 1) == 0 ? 0 : pick(random, 1, 60)};
    // Where transfers of an edge can overlap they would share its link, of
    // which the oracle knows nothing.
    if (!batches && transfers.eager_limit_bytes == 0) {
      costs.p2p.bytes_per_second = pick(random, 1, 40) * 100'000'000;
    }
    const auto truth = oracle::run_with_transfers(program, costs, transfers);
    SCOPED_TRACE(text_of(program) + to_json(costs) + std::string(p2p_name(transfers.mode)) + " " +
                 std::to_string(transfers.eager_limit_bytes));
    SimulationOptions options;
    options.transfers = transfers;
    if (truth) {
      EXPECT_EQ(transfer_times(program, costs, options), *truth);
    } else {
      // What happens at run time is what the checker says beforehand.
      ++deadlocks;
      const auto cycle =
          find_deadlock(program, send_mode_of(transfers.mode), [&](const Action& send) {
            const int first = std::min(send.stage, peer_of(send).stage);
            return costs.stages[static_cast<std::size_t>(first)].output_bytes <
                   transfers.eager_limit_bytes;
          });
      EXPECT_EQ(testing::input_error_of([&] { simulate(program, costs, options); }),
                program.name + ": " + cycle.value_or("the checker sees none"));
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(deadlocks, random_programs() / 100);
}

void expect_same_metrics(const Metrics& a, const Metrics& b) {
  EXPECT_EQ(a.makespan_ns, b.makespan_ns);
  EXPECT_EQ(a.iteration_ends_ns, b.iteration_ends_ns);
  EXPECT_EQ(a.widest_rank, b.widest_rank);
  EXPECT_EQ(a.critical_path.compute_ns, b.critical_path.compute_ns);
  EXPECT_EQ(a.critical_path.p2p_ns, b.critical_path.p2p_ns);
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    const RankMetrics& one = a.ranks[r];
    const RankMetrics& two = b.ranks[r];
    EXPECT_EQ(one.busy_ns, two.busy_ns);
    EXPECT_EQ(one.first_start_ns, two.first_start_ns);
    EXPECT_EQ(one.last_end_ns, two.last_end_ns);
    EXPECT_EQ(one.bubble.warmup_ns, two.bubble.warmup_ns);
    EXPECT_EQ(one.bubble.steady_ns, two.bubble.steady_ns);
    EXPECT_EQ(one.bubble.drain_ns, two.bubble.drain_ns);
    EXPECT_EQ(one.bubble.p2p_ns, two.bubble.p2p_ns);
    EXPECT_EQ(one.peak_activation_chunks, two.peak_activation_chunks);
    EXPECT_EQ(one.peak_activation_bytes, two.peak_activation_bytes);
    EXPECT_EQ(one.peak_memory.bytes, two.peak_memory.bytes);
    EXPECT_EQ(one.peak_memory.time_ns, two.peak_memory.time_ns);
    EXPECT_EQ(one.peak_memory.action, two.peak_memory.action);
    for (const Kind kind :
         {Kind::REDUCE_GRAD, Kind::REDUCE_TIED, Kind::GRAD_NORM, Kind::OPTIMIZER}) {
      EXPECT_EQ(one.closing.of(kind), two.closing.of(kind));
    }
  }
}

// The two evaluations, where both apply: compute schedules and programs, with
// late sends, overlapped cells and closing work.
TEST(Transfers, TopologicalEvaluationAndEventEngineAreEqual) {
  std::mt19937_64 random(32);
  for (int i = 0; i < random_programs(); ++i) {
    Schedule schedule = i % 5 == 0 ? testing::random_schedule_with_copies(random)
                                   : testing::random_schedule(random);
    if (pick(random, 0, 1) == 0) {
      schedule = lower(schedule);
      testing::shuffle(schedule, random);
    }
    Costs costs = testing::without_bytes(testing::random_costs(random, schedule));
    testing::add_messages(costs, random);
    SimulationOptions by_events;
    by_events.always_by_events = true;
    ASSERT_EQ(prepare(schedule, costs, {}).evaluation, Evaluation::alone);
    SCOPED_TRACE(to_csv(schedule) + to_json(costs));
    const std::string error = testing::error_of([&] { simulate(schedule, costs); });
    if (error != testing::no_error) {
      EXPECT_EQ(testing::error_of([&] { simulate(schedule, costs, by_events); }), error);
    } else {
      expect_same_metrics(simulate(schedule, costs), simulate(schedule, costs, by_events));
      EXPECT_EQ(transfer_times(schedule, costs, {}), transfer_times(schedule, costs, by_events));
    }
    if (HasFailure()) break;
  }
}

// In order and by events, where durations are known at the start: all modes, messages with and
// without bytes, several iterations. In one that shares links both are by events.
TEST(Transfers, EvaluationInOrderAndEventEngineAreEqual) {
  std::mt19937_64 random(36);
  for (int i = 0; i < random_programs(); ++i) {
    const Schedule schedule = i % 5 == 0 ? testing::random_schedule_with_copies(random)
                                         : testing::random_schedule(random);
    Costs costs = testing::random_costs(random, schedule);
    testing::add_messages(costs, random);
    if (pick(random, 0, 1) == 0) costs.p2p.bytes_per_second = pick(random, 1, 40) * 1'000'000'000;
    SimulationOptions options;
    options.transfers = {static_cast<P2p>(pick(random, 0, 3)),
                         pick(random, 0, 1) == 0 ? 0 : pick(random, 1, 60)};
    options.iterations = static_cast<int>(pick(random, 1, 3));
    options.accumulation.passes = static_cast<int>(pick(random, 1, 2));
    SimulationOptions by_events = options;
    by_events.always_by_events = true;
    ASSERT_NE(prepare(schedule, costs, options).evaluation, Evaluation::by_events);
    SCOPED_TRACE(to_csv(schedule) + to_json(costs) + std::string(p2p_name(options.transfers.mode)));
    expect_same_metrics(simulate(schedule, costs, options), simulate(schedule, costs, by_events));
    EXPECT_EQ(transfer_times(schedule, costs, options), transfer_times(schedule, costs, by_events));
    if (HasFailure()) break;
  }
}

// The same time, said as one number with that of the pass.
Costs poured(Costs costs) {
  for (StageCosts& stage : costs.stages) {
    stage.forward_ns += std::exchange(stage.forward_messages_ns, 0);
    stage.backward_input_ns += std::exchange(stage.backward_messages_ns, 0);
  }
  return costs;
}

// What messages take of an action is time of it like any other, for families and for any
// program, in all modes.
TEST(Transfers, MessagesAreTimeOfTheirActions) {
  std::mt19937_64 random(35);
  std::vector<Schedule> schedules{generate({"gpipe", 3, 5}),
                                  generate({"1f1b", 4, 6}),
                                  generate({"zb-h1", 4, 8}),
                                  generate({"zb-h2", 3, 7}),
                                  generate({"interleaved", 2, 4, 2}),
                                  generate({"bfs", 2, 4, 2}),
                                  generate({"interleaved-zb", 2, 4, 2})};
  for (int i = 0; i < random_programs() / 4; ++i) {
    const Schedule schedule = i < 4 * std::ssize(schedules)
                                  ? schedules[static_cast<std::size_t>(i / 4)]
                                  : testing::random_schedule(random);
    Costs costs = testing::random_costs(random, schedule);
    testing::add_messages(costs, random);
    if (pick(random, 0, 1) == 0) costs.p2p.bytes_per_second = pick(random, 1, 40) * 10'000'000;
    if (pick(random, 0, 2) == 0) costs.compute_slowdown_ppm = pick(random, 1, 3'000'000);
    SimulationOptions options = with(static_cast<P2p>(i % 4), pick(random, 0, 60));
    options.iterations = static_cast<int>(pick(random, 1, 2));
    const Costs other = poured(costs);
    SCOPED_TRACE(to_csv(schedule) + to_json(costs) + std::string(p2p_name(options.transfers.mode)));
    const std::string error = testing::error_of([&] { simulate(schedule, costs, options); });
    if (error != testing::no_error) {
      EXPECT_EQ(testing::error_of([&] { simulate(schedule, other, options); }), error);
    } else {
      expect_same_metrics(simulate(schedule, costs, options), simulate(schedule, other, options));
      EXPECT_EQ(transfer_times(schedule, costs, options), transfer_times(schedule, other, options));
    }
    if (HasFailure()) break;
  }
}

// Where nothing is shared: no bandwidth by several transfers, and no rank by compute and
// a transfer that slows it down.
TEST(Transfers, WithoutSharingLongerIsNeverShorterAndAsyncIsFastest) {
  std::mt19937_64 random(34);
  for (int i = 0; i < random_programs() / 4; ++i) {
    const Schedule program = lower(testing::random_schedule(random));
    Costs costs = testing::without_bytes(testing::random_costs(random, program));
    Costs longer = costs;
    StageCosts& stage =
        longer.stages[static_cast<std::size_t>(pick(random, 0, program.stages() - 1))];
    std::int64_t* const times[] = {&stage.forward_ns, &stage.backward_input_ns,
                                   &stage.backward_weight_ns, &longer.p2p.latency_ns};
    *times[pick(random, 0, 3)] += pick(random, 1, 500);
    SCOPED_TRACE(text_of(program) + to_json(costs));
    std::int64_t async_ns = 0;
    for (const P2p mode : {P2p::async, P2p::blocking, P2p::fifo, P2p::edge_fifo}) {
      const std::int64_t makespan_ns = simulate(program, costs, with(mode)).makespan_ns;
      if (mode == P2p::async) async_ns = makespan_ns;
      EXPECT_GE(makespan_ns, async_ns);
      EXPECT_GE(simulate(program, longer, with(mode)).makespan_ns, makespan_ns);
    }
    if (HasFailure()) break;
  }
}

// Everything at once, for the assertions that a debug build makes: links never
// above what they carry, all bytes delivered, no negative memory, streams in
// order. What can be said from outside is said here.
TEST(Transfers, AnythingGoes) {
  std::mt19937_64 random(33);
  int finished = 0;
  for (int i = 0; i < random_programs(); ++i) {
    const Schedule program = random_program(random, true);
    Costs costs = testing::random_costs(random, program);
    if (pick(random, 0, 1) == 0) {
      costs.p2p.bytes_per_second = pick(random, 1, 40) * 10'000'000;
    }
    if (pick(random, 0, 1) == 0) {
      costs.shared_links = {{"a", pick(random, 1, 9) * 10'000'000},
                            {"b", pick(random, 1, 9) * 10'000'000}};
      for (int from = 0; from < program.ranks(); ++from) {
        for (int to = 0; to < program.ranks(); ++to) {
          if (from == to || pick(random, 0, 2) == 0) continue;
          Link link = costs.link(from, to);
          link.through = pick(random, 0, 1) == 0 ? std::vector{0} : std::vector{0, 1};
          costs.edges[{from, to}] = link;
        }
      }
    }
    if (pick(random, 0, 2) == 0) costs.compute_slowdown_ppm = pick(random, 1, 3'000'000);
    SimulationOptions options;
    options.transfers = {static_cast<P2p>(pick(random, 0, 3)), pick(random, 0, 60)};
    std::set<std::tuple<int, int, Kind, int>> done;
    std::int64_t last = 0;
    options.sink = [&](const Span& span) {
      const Action& a = span.action;
      EXPECT_LE(span.start_ns, span.end_ns);
      last = std::max(last, span.end_ns);
      EXPECT_LE(span.input_arrival_ns, span.start_ns);
      EXPECT_LE(span.input_sent_ns, span.input_arrival_ns);
      if (is_send(a.kind)) {
        const Link& link = costs.link(span.rank, program.placement.rank_of(peer_of(a)));
        EXPECT_GE(span.end_ns - span.start_ns,
                  link.latency_ns + costs.occupied_ns(link, span.bytes));
      }
      EXPECT_TRUE(done.emplace(span.rank, a.stage, a.kind, a.microbatch).second) << to_text(a);
    };
    SCOPED_TRACE(text_of(program) + to_json(costs));
    Metrics metrics;
    const std::string error =
        testing::error_of([&] { metrics = simulate(program, costs, options); });
    if (error != testing::no_error) {
      EXPECT_NE(error.find("deadlock: "), std::string::npos) << error;
      continue;
    }
    ++finished;
    EXPECT_EQ(metrics.makespan_ns, last);
    for (const RankMetrics& rank : metrics.ranks) {
      EXPECT_EQ(rank.busy_ns + rank.bubble.total_ns(), metrics.makespan_ns);
      EXPECT_GE(std::min({rank.bubble.warmup_ns, rank.bubble.steady_ns, rank.bubble.drain_ns,
                          rank.bubble.p2p_ns}),
                0);
    }
    const CriticalPath& path = metrics.critical_path;
    EXPECT_EQ(path.compute_ns + path.p2p_ns + path.other_ns, metrics.makespan_ns);
    EXPECT_GE(std::min({path.compute_ns, path.p2p_ns, path.other_ns}), 0);
    // Whatever waits, waits for work or for a transfer.
    if (costs.optimizer_ns.empty() && costs.reduce_gradients_ns.empty() && !costs.tied_gradients &&
        !costs.gradient_norm) {
      EXPECT_EQ(path.other_ns, 0);
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(finished, random_programs() / 3);
}

// ---- The critical path

// What may have held a transfer up at its start, from spans alone: its
// producer, or what ended then on a stream that it runs on.
bool may_follow(const Span& next, const Span& before, const Schedule& program, P2p mode) {
  if (before.end_ns != next.start_ns) return false;
  const Action& a = next.action;
  const Action& b = before.action;
  const auto awaits = [&](const Dependency& dependency) {
    return ActionKey(dependency.action) == ActionKey(a) &&
           ActionKey(dependency.awaited) == ActionKey(b);
  };
  if (std::ranges::any_of(program.dependencies, awaits)) return true;
  // What a SEND ahead of it on its list awaits holds it up, too.
  const auto list = program.actions[next.rank];
  const auto place_of = [&](const Action& action) {
    return std::ranges::find(list, ActionKey(action),
                             [](const Action& one) { return ActionKey(one); });
  };
  const auto holds_up = [&](const Dependency& dependency) {
    return is_send(dependency.action.kind) && ActionKey(dependency.awaited) == ActionKey(b) &&
           place_of(dependency.action) < place_of(a);
  };
  if (mode == P2p::async && std::ranges::any_of(program.dependencies, holds_up)) return true;
  if (is_compute(a.kind)) {
    if (is_compute(b.kind)) return before.rank == next.rank;
    const Action received = peer_of(b);
    const bool is_input = received.stage == a.stage && received.microbatch == a.microbatch &&
                          (received.kind == Kind::RECV_F) == (a.kind == Kind::F) &&
                          a.kind != Kind::W;
    const int other_end = program.placement.rank_of(received);
    const bool held = mode == P2p::blocking && (before.rank == next.rank || other_end == next.rank);
    return is_input || held;
  }
  const int to = program.placement.rank_of(peer_of(a));
  if (is_compute(b.kind)) {
    const bool produced = b.stage == a.stage && b.microbatch == a.microbatch &&
                          (b.kind == Kind::F) == (a.kind == Kind::SEND_F) && b.kind != Kind::W;
    // A list may come to a SEND after other work; blocking, both lists count.
    const bool own = mode == P2p::async && before.rank == next.rank;
    const bool either = mode == P2p::blocking && (before.rank == next.rank || before.rank == to);
    return produced || own || either;
  }
  const int before_to = program.placement.rank_of(peer_of(b));
  if (mode == P2p::edge_fifo) return before.rank == next.rank && before_to == to;
  const bool touches =
      before.rank == next.rank || before.rank == to || before_to == next.rank || before_to == to;
  return mode != P2p::async && touches;
}

// The compute time of the path is that of a chain in which each action begins
// as the one before it ends, all the way from 0 to the last end.
TEST(Transfers, CriticalPathsAreChains) {
  std::mt19937_64 random(34);
  for (int i = 0; i < random_programs() / 4; ++i) {
    Schedule program = random_program(random, false);
    if (i % 2 == 0) testing::add_dependencies(program, random);
    std::erase_if(program.dependencies,
                  [](const Dependency& one) { return is_transfer(one.awaited.kind); });
    Costs costs = testing::random_costs(random, program);
    costs.optimizer_ns.clear();
    costs.reduce_gradients_ns.clear();
    costs.tied_gradients = costs.gradient_norm = std::nullopt;
    testing::take_time(costs);
    if (pick(random, 0, 1) == 0) costs.p2p.bytes_per_second = pick(random, 1, 40) * 100'000'000;
    SimulationOptions options = with(static_cast<P2p>(pick(random, 0, 3)));
    std::vector<Span> spans;
    options.sink = [&](const Span& span) {
      if (!is_receive(span.action.kind)) spans.push_back(span);
    };
    Metrics metrics;
    if (testing::error_of([&] { metrics = simulate(program, costs, options); }) !=
        testing::no_error) {
      continue;
    }
    std::ranges::stable_sort(spans, {}, &Span::start_ns);
    // For each span the compute times of all chains that end with it. Both
    // actions of a cell are one piece of work.
    std::vector<std::set<std::int64_t>> sums(spans.size());
    std::set<std::int64_t> possible;
    for (std::size_t s = 0; s < spans.size(); ++s) {
      const Span& span = spans[s];
      std::set<std::int64_t> before;
      if (span.start_ns == 0) before.insert(0);
      std::vector<Span> parts{span};
      for (const Span& other : spans) {
        const bool same_cell = is_compute(span.action.kind) && is_compute(other.action.kind) &&
                               other.rank == span.rank && other.start_ns == span.start_ns;
        if (same_cell) parts.push_back(other);
      }
      for (std::size_t b = 0; b < s; ++b) {
        for (const Span& part : parts) {
          if (may_follow(part, spans[b], program, options.transfers.mode)) {
            before.insert(sums[b].begin(), sums[b].end());
          }
        }
      }
      for (const std::int64_t sum : before) {
        sums[s].insert(sum + (is_compute(span.action.kind) ? span.end_ns - span.start_ns : 0));
      }
      if (span.end_ns == metrics.makespan_ns) possible.insert(sums[s].begin(), sums[s].end());
    }
    SCOPED_TRACE(text_of(program) + to_json(costs) + std::string(p2p_name(options.transfers.mode)));
    EXPECT_TRUE(possible.contains(metrics.critical_path.compute_ns))
        << metrics.critical_path.compute_ns;
    if (HasFailure()) break;
  }
}

// A transfer that ends as a compute action does leaves its end where it is.
TEST(Transfers, ASlowedActionEndsAtItsInstant) {
  Costs costs = costs_of(2, 100, 400, 200);
  costs.compute_slowdown_ppm = 1'000'000;
  const oracle::Times times = transfer_times(generate({"gpipe", 2, 3}), costs, {});
  // Slowed to half by the transfer that lasts from 100 to 300, F1 has done its
  // 100 at 300: at the same instant as the transfer.
  EXPECT_EQ(times.at({0, Kind::SEND_F, 0}), std::pair(std::int64_t{100}, std::int64_t{300}));
  EXPECT_EQ(times.at({0, Kind::F, 1}), std::pair(std::int64_t{100}, std::int64_t{300}));
  EXPECT_EQ(times.at({0, Kind::F, 2}).first, 300);
}

// Tens of thousands of transfers in flight on one link: what matters are the
// routes on it, not the transfers.
TEST(Transfers, ManyShareALink) {
  Costs costs = costs_of(2, 1'000, 2'000);
  costs.stages[0].output_bytes = 1'000'000;
  costs.p2p.bytes_per_second = 1'000'000'000;
  const int m = 20'000;
  const Metrics metrics = simulate(generate({"gpipe", 2, m}), costs);
  // The link is busy from the first result on until all are through, and again
  // from the first gradient on.
  EXPECT_GT(metrics.makespan_ns, 2 * m * std::int64_t{1'000'000});
  EXPECT_LT(metrics.makespan_ns, 2 * m * std::int64_t{1'000'000} + m * std::int64_t{3'000});
}

// Makespans of SimGrid 3.32 where transfers share links: F = 1 ms, B = 2 ms,
// 45 us a hop, 3 MB through 1 GB/s (3 ms each, one every 1 ms in the warm-up).
TEST(Transfers, AgreesWithSimGridWhereLinksAreShared) {
  Costs costs = costs_of(4, 1'000'000, 2'000'000, 45'000);
  for (StageCosts& stage : costs.stages) stage.output_bytes = 3'000'000;
  costs.p2p.bytes_per_second = 1'000'000'000;
  EXPECT_EQ(simulate(generate({"1f1b", 4, 8}), costs).makespan_ns, 86'386'667);
}

}  // namespace
}  // namespace pipesim
