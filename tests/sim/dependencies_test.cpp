// What a program says of who waits for whom: predicted, checked, written and refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/program_text.h"
#include "sim/schedule/unroll.h"
#include "tests/errors.h"
#include "tests/random_schedule.h"
#include "traces/action_key.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using testing::costs_of;
using testing::input_error_of;

const std::string gpipe =
    "pipesim-program 1\n\n"
    "rank 0\ncompute   0F0 0F1 0B0 0B1\ntransfers 0SEND_F0 0SEND_F1 0RECV_B0 0RECV_B1\n\n"
    "rank 1\ncompute   1F0 1F1 1B0 1B1\ntransfers 1RECV_F0 1RECV_F1 1SEND_B0 1SEND_B1\n";

std::map<ActionKey, Span> spans_of(const Schedule& program, const Costs& costs, P2p mode,
                                   Metrics* metrics = nullptr) {
  std::map<ActionKey, Span> spans;
  SimulationOptions options;
  options.transfers.mode = mode;
  options.sink = [&](const Span& span) { spans[ActionKey(span.action, span.iteration)] = span; };
  const Metrics all = simulate(program, costs, options);
  if (metrics != nullptr) *metrics = all;
  return spans;
}

std::int64_t start_of(const std::map<ActionKey, Span>& spans, const char* action) {
  return spans.at(ActionKey(*parse_action(action))).start_ns;
}

// F 10, B 20, hop 3: alone 0F1 starts at 10, 1F1 at 23, 1B0 at 33, 0B0 at 56.
TEST(Dependencies, ByHand) {
  const Costs costs = costs_of(2, 10, 20, 3);
  const auto of = [&](const std::string& lines) {
    return spans_of(parse_program(gpipe + lines, "p"), costs, P2p::fifo);
  };
  EXPECT_EQ(start_of(of(""), "0F1"), 10);
  // After the end of what another rank computes, and then as ever.
  const auto across = of("0F1 after 1F0\n");
  EXPECT_EQ(start_of(across, "0F1"), 23);
  EXPECT_EQ(start_of(across, "1F1"), 36);
  // A SEND that leaves late, while its rank goes on; the last of several counts.
  const auto late = of("0SEND_F0 after 0F1\n");
  EXPECT_EQ(start_of(late, "0SEND_F0"), 20);
  EXPECT_EQ(start_of(late, "0F1"), 10);
  EXPECT_EQ(start_of(of("0SEND_F1 after 0F0 1F0\n"), "0SEND_F1"), 23);
  // Until a message has arrived: sent, or received.
  EXPECT_EQ(start_of(of("0F1 after 0SEND_F0\n"), "0F1"), 13);
  EXPECT_EQ(start_of(of("0F1 after 1RECV_F0\n"), "0F1"), 13);
  EXPECT_EQ(start_of(of("1B0 after 0F1\n1B1 after 1B0\n"), "1B0"), 33);
}

// The chain leads along what was waited for: 0F0, a hop, 1F0, 0F1, a hop, 1F1, 1B0, ...
TEST(Dependencies, StandOnTheCriticalPath) {
  Metrics metrics;
  spans_of(parse_program(gpipe + "0F1 after 1F0\n", "p"), costs_of(2, 10, 20, 3), P2p::fifo,
           &metrics);
  EXPECT_EQ(metrics.makespan_ns, 109);
  EXPECT_EQ(metrics.critical_path.compute_ns, 100);
  EXPECT_EQ(metrics.critical_path.p2p_ns, 9);
  // What is waited for so is no time in flight: the rank is idle for want of work.
  EXPECT_EQ(metrics.ranks[0].bubble.p2p_ns, 3);
  EXPECT_EQ(metrics.ranks[0].bubble.warmup_ns, 46);
}

// Under async, what the list has of transfers stands among what is computed.
TEST(Dependencies, HoldBackASendAndWhatStandsBehindIt) {
  const std::string text =
      "pipesim-program 1\n\nrank 0\ncompute 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n\n"
      "rank 1\ncompute 1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1\n\n";
  const Schedule program = parse_program(text + "0SEND_F1 after 1F0\n0B0 after 1RECV_F1\n", "p");
  const auto spans = spans_of(program, costs_of(2, 10, 20, 3), P2p::async);
  EXPECT_EQ(start_of(spans, "0F1"), 10);
  EXPECT_EQ(start_of(spans, "0SEND_F1"), 23);
  EXPECT_EQ(start_of(spans, "0B0"), 46);  // its gradient's arrival; the activation's is 26
  EXPECT_EQ(start_of(spans, "1F1"), 43);
}

// With transfers that take their latency alone, everything starts as soon as its rank is free,
// its input there and all that it is said to wait for has ended.
TEST(Dependencies, NothingStartsSoonerOrLaterThanItMay) {
  std::mt19937_64 random(41);
  int stuck = 0;
  for (int i = 0; i < 600; ++i) {
    Schedule schedule = testing::random_schedule(random);
    testing::add_dependencies(schedule, random);
    SCOPED_TRACE(to_program_text(schedule, TransferLane::compute));
    Costs costs = testing::without_bytes(testing::random_costs(random, schedule));
    std::map<ActionKey, Span> spans;
    const std::string error =
        testing::error_of([&] { spans = spans_of(schedule, costs, P2p::async); });
    EXPECT_EQ(error != testing::no_error, find_deadlock(schedule, SendMode::buffered).has_value());
    if (error != testing::no_error) {
      ++stuck;
      continue;
    }
    const auto end_of = [&](const Action& action) {
      const auto found = spans.find(ActionKey(action));
      return found == spans.end()
                 ? spans.at(ActionKey(make_action(action.stage, Kind::I, action.microbatch))).end_ns
                 : found->second.end_ns;
    };
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      std::int64_t free = 0;
      std::int64_t could = 0;  // the cell
      for (const Action& action : schedule.actions[rank]) {
        if (action.kind == Kind::IDLE) continue;
        could = std::max(could, free);
        const int from = action.kind == Kind::F ? action.stage - 1 : action.stage + 1;
        if (action.kind != Kind::W && from >= 0 && from < schedule.stages()) {
          const int sender = schedule.placement.rank_of(from);
          const Kind kind = action.kind == Kind::F ? Kind::F : Kind::B;
          could = std::max(could, end_of(make_action(from, kind, action.microbatch)) +
                                      (sender == rank ? 0 : costs.link(sender, rank).latency_ns));
        }
        for (const Dependency& dependency : schedule.dependencies) {
          if (ActionKey(dependency.action) != ActionKey(action)) continue;
          could = std::max(could, end_of(dependency.awaited));
        }
        if (action.joined) continue;
        EXPECT_EQ(spans.at(ActionKey(action)).start_ns, could) << to_text(action);
        free = spans.at(ActionKey(action)).end_ns;
        could = 0;
      }
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(stuck, 60);
}

// Each iteration has its own.
TEST(Dependencies, AreUnrolled) {
  const Schedule program = parse_program(gpipe + "0F1 after 1F0\n", "p");
  const Schedule twice = unroll(program, 2);
  ASSERT_EQ(twice.dependencies.size(), 2U);
  EXPECT_EQ(to_text(twice.dependencies[1].action), "0F3");
  EXPECT_EQ(to_text(twice.dependencies[1].awaited), "1F2");
  SimulationOptions options;
  options.transfers.mode = P2p::fifo;
  options.iterations = 3;
  const Metrics metrics = simulate(program, costs_of(2, 10, 20, 3), options);
  EXPECT_EQ(metrics.iteration_ends_ns, (std::vector<std::int64_t>{109, 218, 327}));
}

TEST(Dependencies, ACircleIsNamed) {
  const auto cycle = [&](const std::string& lines) {
    return find_deadlock(parse_program(gpipe + lines, "p"), SendMode::fifo).value_or("runs");
  };
  EXPECT_EQ(cycle("0F1 after 1F0\n"), "runs");
  EXPECT_EQ(cycle("0F0 after 0F1\n"),
            "deadlock: 0F0 on rank 0 waits for 0F1, which comes after 0F0 on rank 0");
  EXPECT_EQ(
      cycle("0F1 after 1F1\n"),
      "deadlock: 0F1 on rank 0 waits for 1F1 on rank 1; 1F1 on rank 1 waits for 1RECV_F1, which "
      "comes after 0SEND_F1 on rank 0's transfers; 0SEND_F1 on rank 0's transfers waits for "
      "0F1 on rank 0");
  EXPECT_EQ(input_error_of([&] {
              spans_of(parse_program(gpipe + "0B0 after 0B1\n", "p"), costs_of(2, 1, 2), P2p::fifo);
            }),
            "p: deadlock: 0B0 on rank 0 waits for 0B1, which comes after 0B0 on rank 0");
}

// So is one of a SEND that completes by itself, and of the action in a cell that waits.
TEST(Dependencies, ACircleOfOneEndIsNamed) {
  const std::string on_compute =
      "pipesim-program 1\nrank 0\ncompute 0F0 0SEND_F0 0RECV_B0 0B0\nrank 1\n"
      "compute 1RECV_F0 1F0 1B0 1SEND_B0\n0SEND_F0 after 0B0\n";
  const std::string cycle =
      "deadlock: 0SEND_F0 on rank 0 waits for 0B0, which comes after 0SEND_F0 on rank 0";
  const Schedule program = parse_program(on_compute, "p");
  EXPECT_EQ(find_deadlock(program, SendMode::buffered).value_or("runs"), cycle);
  EXPECT_EQ(input_error_of([&] { spans_of(program, costs_of(2, 1, 2), P2p::async); }),
            "p: " + cycle);
  const EagerSends all = [](const Action&) { return true; };
  EXPECT_EQ(find_deadlock(parse_program(gpipe + "0SEND_F0 after 0B0\n", "p"), SendMode::fifo, all)
                .value_or("runs"),
            "deadlock: 0B0 on rank 0 waits for 0RECV_B0, which comes after 0SEND_F0 on rank 0's "
            "transfers; 0SEND_F0 on rank 0's transfers waits for 0B0 on rank 0");
  const std::string cells =
      "pipesim-program 1\nrank 0\ncompute 0F0 (0F1;0B0)OVERLAP_F_B 0B1 0F2 0B2\n0B0 after 0B2\n";
  EXPECT_EQ(find_deadlock(parse_program(cells, "p"), SendMode::buffered).value_or("runs"),
            "deadlock: 0B0 on rank 0 waits for 0B2, which comes after 0F1 on rank 0");
}

// Whatever the circle, nothing in it waits for itself.
TEST(Dependencies, NoCircleNamesAnActionTwiceInARow) {
  std::mt19937_64 random(47);
  int stuck = 0;
  for (int i = 0; i < 600; ++i) {
    Schedule program = lower(testing::random_schedule(random));
    testing::add_dependencies(program, random);
    for (const SendMode mode : all_send_modes()) {
      const EagerSends some = [&](const Action& send) { return send.microbatch % 2 == i % 2; };
      const auto cycle = find_deadlock(program, mode, i % 3 == 0 ? EagerSends() : some);
      if (!cycle) continue;
      ++stuck;
      std::string text = cycle->substr(std::string("deadlock: ").size());
      for (const std::string_view wait : split(text, ';')) {
        const std::string_view own = strip(wait).substr(0, strip(wait).find(' '));
        EXPECT_EQ(wait.find("waits for " + std::string(own) + " "), std::string_view::npos)
            << *cycle << "\n"
            << to_program_text(program, TransferLane::compute);
      }
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(stuck, 300);
}

TEST(Dependencies, AreRefusedWhereTheyStand) {
  const auto refused = [&](const std::string& line) {
    return input_error_of([&] { parse_program(gpipe + line, "p"); });
  };
  EXPECT_EQ(refused("0F1 after 1F9\n"), "p:10:11: 1F9 is not in the schedule");
  EXPECT_EQ(refused("7F1 after 1F0\n"), "p:10:11: 7F1 is not in the schedule");
  EXPECT_EQ(refused("0F1 after 1I0\n"), "p:10:11: 1I0 is not in the schedule");
  EXPECT_EQ(refused("0F1 after 0F1\n"), "p:10:11: 0F1 waits for itself");
  EXPECT_EQ(refused("0F1 after 1F0 1F0\n"), "p:10:15: 0F1 waits for 1F0 twice");
  EXPECT_EQ(refused("0F1 after\n"), "p:10:1: 0F1 waits for what? Name an action");
  EXPECT_EQ(refused("after after 1F0\n"), "p:10:1: which action waits? Write `0F3 after 1B0`");
  EXPECT_EQ(refused("1RECV_F0 after 0F1\n"),
            "p:10:16: 1RECV_F0 waits for nothing but its SEND; let 1F0 wait");
  EXPECT_EQ(refused("0OPTIMIZER after 0F1\n"),
            "p:10:18: 0OPTIMIZER has no microbatch; F, I, W, B and SEND may wait, for these or a "
            "RECV");
  EXPECT_EQ(refused("(0F0;0B0)OVERLAP_F_B after 1F0\n"),
            "p:10:1: '(0F0;0B0)OVERLAP_F_B' is a cell; name one of its actions");
  EXPECT_EQ(refused("0F1 AFTER 1F0\n"),
            "p:10:1: '0F1' is not a stream; to let it wait write `0F1 after 1B0`");
  EXPECT_EQ(refused("0G1 after 1F0\n"),
            "p:10:1: '0G1' is not an action, such as 2F0, 2SEND_F0 or 2REDUCE_GRAD");
  // Of a cell, and of what a split backward has.
  const std::string two =
      "pipesim-program 1\nrank 0\ncompute 0F0 (0F1;0I0)OVERLAP_F_B 0I1 0W0 0W1\nrank 1\n"
      "compute 1F0 1B0 1F1 1B1\n";
  EXPECT_EQ(input_error_of([&] { parse_program(two + "0I0 after 0F1\n", "p"); }),
            "p:6:11: 0I0 waits for 0F1, with which it shares a cell");
  EXPECT_EQ(input_error_of([&] {
              parse_program(to_program_text(lower(parse_program(two, "p")), TransferLane::rank) +
                                "0RECV_B0 after 0W1\n",
                            "p");
            }),
            "p:10:16: 0RECV_B0 waits for nothing but its SEND; let 0I0 wait");
  std::string many = "0F0 after";
  std::string text = "pipesim-program 1\n\nrank 0\ncompute";
  for (int i = 0; i < 70; ++i) text += " 0F" + std::to_string(i);
  for (int i = 0; i < 70; ++i) text += " 0B" + std::to_string(i);
  for (int i = 1; i < 66; ++i) many += " 0F" + std::to_string(i);
  EXPECT_EQ(input_error_of([&] { parse_program(text + "\n" + many + "\n", "p"); }).substr(0, 50),
            "p:5:322: 0F0 waits for more than 64 actions");
}

// Transfers placed by a pass do not conflict with them.
TEST(Dependencies, ProgramsOfThemRunOnEveryTransport) {
  const std::string alone =
      "pipesim-program 1\nrank 0\ncompute 0F0 0F1 0B0 0B1\nrank 1\ncompute 1F0 1F1 1B0 1B1\n";
  const Schedule schedule = parse_program(alone + "0F1 after 1F0\n", "p");
  const Costs costs = costs_of(2, 10, 20, 3);
  EXPECT_EQ(start_of(spans_of(schedule, costs, P2p::async), "0F1"), 23);
  EXPECT_EQ(start_of(spans_of(schedule, costs, P2p::blocking), "0F1"), 23);
  std::mt19937_64 random(43);
  int lowered = 0;
  for (int i = 0; i < 600; ++i) {
    Schedule compute = testing::random_schedule(random);
    testing::add_dependencies(compute, random);
    if (find_deadlock(compute, SendMode::buffered)) {
      EXPECT_NE(testing::error_of([&] { lower(compute); }), testing::no_error);
      continue;
    }
    ++lowered;
    const Schedule program = lower(compute);
    EXPECT_EQ(program.dependencies, compute.dependencies);
    for (const SendMode mode : all_send_modes()) {
      EXPECT_EQ(find_deadlock(program, mode).value_or("runs"), "runs");
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(lowered, 200);
}

TEST(Dependencies, AreInNoCsv) {
  EXPECT_EQ(input_error_of([] { to_csv(parse_program(gpipe + "0F1 after 1F0\n", "p")); }),
            "p: CSV cannot say that 0F1 waits for 1F0; write it with `pipesim schedule streams`");
}

}  // namespace
}  // namespace pipesim
