// Where RECVs stand: what each choice is, by hand and by definition, on the orders of others and
// on random ones; where each runs; and how long it takes.
#include "sim/schedule/receives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/program_text.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/oracle.h"
#include "tests/random_schedule.h"
#include "tests/transfer_oracle.h"

namespace pipesim {
namespace {

using testing::golden;
using testing::pick;

// How many random schedules each test tries; more by PIPESIM_RANDOM_PROGRAMS.
int random_schedules() {
  const char* text = std::getenv("PIPESIM_RANDOM_PROGRAMS");
  return text == nullptr ? 400 : std::atoi(text);
}

std::vector<std::string> rows_of(const Schedule& program) {
  std::vector<std::string> rows;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    rows.push_back(csv_row(program.actions[rank]));
  }
  return rows;
}

using Rows = std::vector<std::string>;

// --- by hand

TEST(Receives, OfTwoRanks) {
  const Schedule program = lower(generate({"1f1b", 2, 2}));
  const auto placed = [&](Receives where, std::optional<int> buffers = {}) {
    return rows_of(place_receives(program, where, {buffers, {}}));
  };
  const std::string first = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1";
  EXPECT_EQ(placed(Receives::sender),
            (Rows{first, "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1"}));
  EXPECT_EQ(placed(Receives::edge), placed(Receives::sender));
  EXPECT_EQ(placed(Receives::just_in_time),
            (Rows{first, "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"}));
  // 1SEND_B0 needs 0SEND_F0; 1SEND_B1 needs 0SEND_F1.
  EXPECT_EQ(placed(Receives::early), (Rows{"0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0RECV_B1,0B0,0B1",
                                           "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"}));
  EXPECT_EQ(placed(Receives::early, 1),
            (Rows{"0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0B0,0RECV_B1,0B1",
                  "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1"}));
  EXPECT_EQ(placed(Receives::early, 2), placed(Receives::early));
  EXPECT_EQ(placed(Receives::batched),
            (Rows{"0F0,0SEND_F0,0F1,(0SEND_F1;0RECV_B0)BATCH_P2P,0B0,0RECV_B1,0B1",
                  "1RECV_F0,1F0,1B0,(1SEND_B0;1RECV_F1)BATCH_P2P,1F1,1B1,1SEND_B1"}));
}

// An overlapped cell needs two inputs at once, however few buffers there are.
TEST(Receives, OfACellWithTwoInputs) {
  const Schedule compute =
      parse_csv("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n2F0,2B0,2F1,2B1\n", "three.csv");
  Schedule program = lower(compute);
  EXPECT_EQ(count_receive_buffers(place_receives(program, Receives::just_in_time)), 1);
  program = lower(
      parse_csv("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n2F0,2B0,2F1,2B1\n", "overlap.csv"));
  const Schedule late = place_receives(program, Receives::just_in_time);
  EXPECT_EQ(csv_row(late.actions[1]),
            "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1RECV_B0,(1F1;1B0)OVERLAP_F_B,1SEND_F1,1SEND_B0,"
            "1RECV_B1,1B1,1SEND_B1");
  EXPECT_EQ(count_receive_buffers(late), 2);
  EXPECT_EQ(csv_row(place_receives(program, Receives::batched).actions[1]),
            "1RECV_F0,1F0,(1SEND_F0;1RECV_F1;1RECV_B0)BATCH_P2P,(1F1;1B0)OVERLAP_F_B,"
            "(1SEND_F1;1SEND_B0;1RECV_B1)BATCH_P2P,1B1,1SEND_B1");
  EXPECT_EQ(count_receive_buffers(place_receives(program, Receives::early, {1, {}})), 2);
}

TEST(Receives, NamesAreRead) {
  for (const Receives where : all_receives()) {
    EXPECT_EQ(parse_receives(receives_name(where)), where);
  }
  EXPECT_EQ(testing::input_error_of([] {
              parse_receives("lat");
            }).starts_with("unknown place of receives 'lat'; known, nearest first: "),
            true);
}

// The order that was tried upstream and hung there.
TEST(Receives, JustInTimeIsTheOrderThatDeadlocks) {
  const Schedule theirs = read_csv(golden("recv_before_consumer_deadlocks.csv"));
  const Schedule program = lower(without_transfers(theirs));
  const Schedule late = place_receives(program, Receives::just_in_time);
  EXPECT_EQ(to_csv(late), to_csv(theirs));
  for (const SendMode mode : {SendMode::rendezvous, SendMode::fifo}) {
    EXPECT_TRUE(find_deadlock(late, mode)) << send_mode_name(mode);
    EXPECT_FALSE(find_deadlock(program, mode)) << send_mode_name(mode);
  }
}

// In the steady state each SEND goes with the RECV from the same rank.
TEST(Receives, BatchesOf1f1bAreMegatrons) {
  const Schedule program = place_receives(lower(generate({"1f1b", 4, 8})), Receives::batched);
  EXPECT_TRUE(csv_row(program.actions[2])
                  .starts_with("2RECV_F0,2F0,(2SEND_F0;2RECV_F1)BATCH_P2P,2F1,"
                               "(2SEND_F1;2RECV_B0)BATCH_P2P,2B0,(2SEND_B0;2RECV_F2)BATCH_P2P,2F2,"
                               "(2SEND_F2;2RECV_B1)BATCH_P2P,2B1,(2SEND_B1;2RECV_F3)BATCH_P2P,2F3"))
      << csv_row(program.actions[2]);
  for (const SendMode mode : all_send_modes()) {
    EXPECT_EQ(find_deadlock(program, mode), std::nullopt) << send_mode_name(mode);
  }
}

// --- by definition

// Any times at all: what a hash makes of an action, and short, so that many are the same.
CellTimes any_times(const Action& first) {
  const std::int64_t start =
      (first.stage * 7 + first.microbatch * 13 + static_cast<int>(first.kind) * 5) % 11;
  return {start, start + (first.stage + first.microbatch) % 3};
}

// When cells run where transfers hold nothing.
ReceiveTimes async_times(const Schedule& program, const Costs& costs) {
  std::map<std::tuple<int, Kind, int>, CellTimes> times;
  SimulationOptions options;
  options.sink = [&](const Span& span) {
    const Action& a = span.action;
    times[{a.stage, a.kind, a.microbatch}] = {span.start_ns, span.end_ns};
  };
  simulate(program, costs, options);
  return [times](const Action& first) {
    return times.at({first.stage, first.kind, first.microbatch});
  };
}

struct Placed {
  std::string name;
  Schedule program;
};

std::vector<Placed> all_placed(const Schedule& program) {
  std::vector<Placed> all;
  for (const Receives where : all_receives()) {
    all.push_back(
        {std::string(receives_name(where)), place_receives(program, where, {{}, any_times})});
  }
  for (const int buffers : {1, 2, 3}) {
    all.push_back({"early, " + std::to_string(buffers) + " buffers",
                   place_receives(program, Receives::early, {buffers, {}})});
  }
  return all;
}

std::vector<Action> without_receives(const Schedule& program, int rank) {
  std::vector<Action> list;
  for (Action action : program.actions[rank]) {
    if (action.kind == Kind::IDLE || is_receive(action.kind)) continue;
    if (is_transfer(action.kind)) action.joined = false;
    list.push_back(action);
  }
  return list;
}

std::multiset<std::string> receives_of(const Schedule& program, int rank) {
  std::multiset<std::string> names;
  for (Action action : program.actions[rank]) {
    action.joined = false;
    if (is_receive(action.kind)) names.insert(to_text(action));
  }
  return names;
}

void expect_same_but_receives(const Schedule& program, const Schedule& placed) {
  EXPECT_EQ(placed.placement, program.placement);
  EXPECT_EQ(placed.microbatches, program.microbatches);
  EXPECT_EQ(placed.dependencies, program.dependencies);
  const auto fault = find_fault(placed);
  EXPECT_FALSE(fault) << fault->rule;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    EXPECT_EQ(without_receives(placed, rank), without_receives(program, rank));
    EXPECT_EQ(receives_of(placed, rank), receives_of(program, rank));
  }
}

// Schedules and costs for all tests below: random ones and families.
Schedule schedule_number(int i, std::mt19937_64& random) {
  if (i % 4 == 1) return testing::random_schedule_with_copies(random);
  if (i % 4 != 0) return testing::random_schedule(random);
  for (;;) {
    const auto families = all_families();
    const Family& family = families[static_cast<std::size_t>(
        pick(random, 0, static_cast<std::int64_t>(families.size()) - 1))];
    Schedule schedule;
    const std::string error = testing::error_of([&] {
      schedule = generate({std::string(family.name), static_cast<int>(pick(random, 1, 5)),
                           static_cast<int>(pick(random, 1, 9))});
      lower(schedule);
    });
    if (error == testing::no_error) return schedule;
  }
}

TEST(Receives, NothingElseMoves) {
  std::mt19937_64 random(51);
  for (int i = 0; i < random_schedules(); ++i) {
    const Schedule compute = schedule_number(i, random);
    Schedule program = lower(compute);
    if (i % 3 == 0) testing::add_dependencies(program, random);
    SCOPED_TRACE(to_csv(lower(compute)));
    for (const auto& [name, placed] : all_placed(program)) {
      SCOPED_TRACE(name);
      expect_same_but_receives(program, placed);
    }
    const Schedule again = without_transfers(lower(compute));
    EXPECT_FALSE(again.has_transfers());
    for (int rank = 0; rank < again.ranks(); ++rank) {
      EXPECT_EQ(without_receives(again, rank), without_receives(compute, rank));
    }
    if (HasFailure()) break;
  }
}

// Of a placed RECV: its rank and its place there.
struct Place {
  int rank;
  std::size_t index;
};

std::vector<Place> places_of_receives(const Schedule& program) {
  std::vector<Place> places;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    for (std::size_t i = 0; i < program.actions[rank].size(); ++i) {
      if (is_receive(program.actions[rank][i].kind)) places.push_back({rank, i});
    }
  }
  return places;
}

// Alone among RECVs that stand just in time, an early one holds nobody up for ever; one place
// further up, before the SEND that it stands behind, it does.
TEST(Receives, EarlyIsAsEarlyAsCanBe) {
  std::mt19937_64 random(52);
  int moved = 0;
  int at_the_front = 0;
  for (int i = 0; i < random_schedules() / 4; ++i) {
    const Schedule program = lower(schedule_number(i, random));
    const Schedule early = place_receives(program, Receives::early);
    const Schedule late = place_receives(program, Receives::just_in_time);
    SCOPED_TRACE(to_csv(early));
    for (const Place& place : places_of_receives(early)) {
      const int rank = place.rank;
      const std::size_t index = place.index;
      const auto list = early.actions[rank];
      const Action receive = list[index];
      // What comes before it in the list, ignoring RECVs.
      std::size_t before = 0;
      for (std::size_t k = 0; k < index; ++k) before += is_receive(list[k].kind) ? 0 : 1;
      const auto with_it_behind = [&](std::size_t count) {
        ActionLists lists;
        for (int r = 0; r < late.ranks(); ++r) {
          lists.add_rank();
          std::size_t passed = 0;
          if (r == rank && count == 0) lists.add(receive);
          for (const Action& action : late.actions[r]) {
            if (action == receive) continue;
            lists.add(action);
            if (r != rank || is_receive(action.kind)) continue;
            if (++passed == count) lists.add(receive);
          }
        }
        return late.with(std::move(lists));
      };
      EXPECT_FALSE(find_deadlock(with_it_behind(before), SendMode::buffered)) << to_text(receive);
      if (before == 0) {
        ++at_the_front;
        continue;
      }
      ++moved;
      EXPECT_TRUE(find_deadlock(with_it_behind(before - 1), SendMode::buffered))
          << to_text(receive);
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(moved, 200);
  EXPECT_GT(at_the_front, 200);
}

// Just in time is the latest place, and early the earliest of all choices.
TEST(Receives, LiesBetweenEarlyAndJustInTime) {
  std::mt19937_64 random(53);
  const auto places = [](const Schedule& program) {
    std::map<std::string, std::size_t> behind;  // how many items, by RECV
    for (int rank = 0; rank < program.ranks(); ++rank) {
      std::size_t items = 0;
      for (Action action : program.actions[rank]) {
        action.joined = false;
        if (is_receive(action.kind)) {
          behind[to_text(action)] = items;
        } else {
          ++items;
        }
      }
    }
    return behind;
  };
  for (int i = 0; i < random_schedules(); ++i) {
    const Schedule program = lower(schedule_number(i, random));
    const auto latest = places(place_receives(program, Receives::just_in_time));
    const auto earliest = places(place_receives(program, Receives::early));
    for (const auto& [name, placed] : all_placed(program)) {
      SCOPED_TRACE(name + "\n" + to_csv(placed));
      for (const auto& [receive, place] : places(placed)) {
        EXPECT_LE(place, latest.at(receive)) << receive;
        EXPECT_GE(place, earliest.at(receive)) << receive;
      }
    }
    for (const int buffers : {1, 2, 3}) {
      bool overlaps = false;
      for (const Action& action : program.actions.all()) {
        overlaps = overlaps || (is_compute(action.kind) && action.joined);
      }
      const Schedule placed = place_receives(program, Receives::early, {buffers, {}});
      EXPECT_LE(count_receive_buffers(placed), overlaps ? std::max(2, buffers) : buffers)
          << to_csv(placed);
    }
    if (HasFailure()) break;
  }
}

// RECVs of one edge are in the order of its SENDs unless they are placed by need.
TEST(Receives, EdgesKeepTheirOrder) {
  std::mt19937_64 random(54);
  int others = 0;
  for (int i = 0; i < random_schedules(); ++i) {
    const Schedule program = lower(schedule_number(i, random));
    for (const Receives where : {Receives::sender, Receives::early, Receives::edge}) {
      EXPECT_EQ(find_deadlock(place_receives(program, where), SendMode::edge_fifo), std::nullopt)
          << receives_name(where) << "\n"
          << to_csv(program);
    }
    const Schedule late = place_receives(program, Receives::just_in_time);
    others += find_deadlock(late, SendMode::edge_fifo) ? 1 : 0;
    EXPECT_EQ(find_posted_deadlock(late), std::nullopt);
    if (HasFailure()) break;
  }
  EXPECT_GT(others, 10);
}

// --- where it runs, and how long it takes

// Compute times of the program's actions, and of its transfers, in whatever mode.
oracle::Times times_of(const Schedule& program, const Costs& costs, const Transfers& transfers) {
  oracle::Times times;
  SimulationOptions options;
  options.transfers = transfers;
  options.sink = [&](const Span& span) {
    const Action& a = span.action;
    if (is_compute(a.kind) || is_send(a.kind)) {
      times[{a.stage, a.kind, a.microbatch}] = {span.start_ns, span.end_ns};
    }
  };
  simulate(program, costs, options);
  return times;
}

// Where transfers of an edge can overlap they would share its link, of which the oracle knows
// nothing: eager ones, and those of a batch.
Costs with_limited_links(Costs costs, std::mt19937_64& random) {
  costs.p2p.bytes_per_second = pick(random, 1, 40) * 100'000'000;
  return costs;
}

// An interpreter that shares nothing with the deadlock check or the simulator: the one verdict
// is the other's, and all times are to the nanosecond.
TEST(Receives, RunAndTakeWhatTheOracleSays) {
  std::mt19937_64 random(55);
  std::map<std::pair<std::string, std::string>, int> deadlocks;
  int runs = 0;
  for (int i = 0; i < random_schedules(); ++i) {
    const Schedule program = lower(schedule_number(i, random));
    const Costs unlimited = testing::random_costs(random, program);
    const Costs limited = with_limited_links(unlimited, random);
    const std::int64_t eager_limit = pick(random, 0, 1) * pick(random, 0, 60);
    for (const Placed& one : all_placed(program)) {
      const std::string& name = one.name;
      const Schedule& placed = one.program;
      const Costs& costs = name == "batched" || eager_limit > 0 ? unlimited : limited;
      for (const P2p mode : {P2p::blocking, P2p::fifo, P2p::edge_fifo}) {
        const Transfers transfers{mode, eager_limit};
        SCOPED_TRACE(name + " " + std::string(p2p_name(mode)) + "\n" + to_csv(placed));
        const auto expected = oracle::run_with_transfers(placed, costs, transfers);
        const auto cycle = find_deadlock(placed, send_mode_of(mode), [&](const Action& send) {
          const int first = std::min(send.stage, peer_of(send).stage);
          return costs.stages[static_cast<std::size_t>(first)].output_bytes < eager_limit;
        });
        EXPECT_EQ(cycle.has_value(), !expected.has_value());
        if (expected) {
          EXPECT_EQ(times_of(placed, costs, transfers), *expected);
          ++runs;
        } else {
          ++deadlocks[{name, std::string(p2p_name(mode))}];
          EXPECT_NE(testing::input_error_of([&] {
                      times_of(placed, costs, transfers);
                    }).find("deadlock: "),
                    std::string::npos);
        }
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(runs, 3 * random_schedules());
  for (const char* mode : {"blocking", "fifo"}) {
    EXPECT_EQ((deadlocks[{"sender", mode}]), 0);
    EXPECT_EQ((deadlocks[{"timed", mode}]), 0);
    EXPECT_GT((deadlocks[{"just-in-time", mode}]), 10);
    EXPECT_GT((deadlocks[{"early", mode}]), 10);
    EXPECT_GT((deadlocks[{"batched", mode}]), 10);
    EXPECT_LT((deadlocks[{"batched", mode}]), (deadlocks[{"just-in-time", mode}]));
  }
}

// A posted RECV delays nothing, so that all choices are as fast as no RECV at all.
TEST(Receives, PostedOnesAreEqual) {
  std::mt19937_64 random(56);
  for (int i = 0; i < random_schedules(); ++i) {
    const Schedule compute = schedule_number(i, random);
    const Schedule program = lower(compute);
    const Costs costs = testing::without_bytes(testing::random_costs(random, program));
    const auto expected = oracle::run(compute, costs);
    ASSERT_TRUE(expected);
    for (const auto& [name, placed] : all_placed(program)) {
      SCOPED_TRACE(name + "\n" + to_csv(placed));
      EXPECT_EQ(find_posted_deadlock(placed), std::nullopt);
      for (const auto& [action, span] : times_of(placed, costs, {})) {
        if (!is_compute(std::get<1>(action))) continue;
        EXPECT_EQ(span.first, expected->times.at(action).start);
        EXPECT_EQ(span.second, expected->times.at(action).end);
      }
    }
    if (HasFailure()) break;
  }
}

// No transport deadlocks on RECVs that stand where their messages are sent, whatever times are
// said; where transfers take no time, one stream for all of a rank's holds nobody up then.
TEST(Receives, TimedOnesRunAndAFifoIsAsGoodAsNone) {
  std::mt19937_64 random(59);
  int sooner = 0;
  for (int i = 0; i < random_schedules(); ++i) {
    const Schedule program = lower(schedule_number(i, random));
    Costs costs = testing::without_bytes(testing::random_costs(random, program));
    costs.p2p.latency_ns = 0;
    costs.edges.clear();
    const Schedule anyhow = place_receives(program, Receives::timed, {{}, any_times});
    const Schedule timed =
        place_receives(program, Receives::timed, {{}, async_times(program, costs)});
    for (const SendMode mode : all_send_modes()) {
      ASSERT_EQ(find_deadlock(anyhow, mode), std::nullopt) << to_csv(anyhow);
      ASSERT_EQ(find_deadlock(timed, mode), std::nullopt) << to_csv(timed);
    }
    const std::int64_t ideal_ns = simulate(program, costs).makespan_ns;
    SimulationOptions fifo;
    fifo.transfers = {P2p::fifo, 0};
    ASSERT_EQ(simulate(timed, costs, fifo).makespan_ns, ideal_ns) << to_csv(timed);
    sooner += ideal_ns < simulate(program, costs, fifo).makespan_ns ? 1 : 0;
  }
  EXPECT_GT(sooner, random_schedules() / 10);
}

// By hand: rank 1 is at F0 from 1 to 5 when F1 is sent at 2.
TEST(Receives, TimedOnesStandBehindTheCellThatRuns) {
  const Schedule program = lower(generate({"1f1b", 2, 2}));
  Costs costs = testing::costs_of(2, 1, 2);
  costs.stages[1].forward_ns = 4;
  const Schedule timed =
      place_receives(program, Receives::timed, {{}, async_times(program, costs)});
  EXPECT_EQ(rows_of(timed), (Rows{"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                  "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1"}));
}

// A batch asks for less than its transfers one by one, and so never runs where they don't, nor
// longer.
TEST(Receives, BatchedIsNoLongerThanJustInTime) {
  std::mt19937_64 random(57);
  int shorter = 0;
  for (int i = 0; i < random_schedules(); ++i) {
    const Schedule program = lower(schedule_number(i, random));
    const Costs costs = testing::random_costs(random, program);
    for (const P2p mode : {P2p::blocking, P2p::fifo}) {
      const auto late = oracle::run_with_transfers(place_receives(program, Receives::just_in_time),
                                                   costs, {mode, 0});
      if (!late) continue;
      const Schedule batched = place_receives(program, Receives::batched);
      ASSERT_FALSE(find_deadlock(batched, send_mode_of(mode))) << to_csv(batched);
      const oracle::Times times = times_of(batched, costs, {mode, 0});
      for (const auto& [action, span] : *late) {
        ASSERT_LE(times.at(action).second, span.second) << to_csv(batched);
        shorter += times.at(action).second < span.second ? 1 : 0;
      }
    }
  }
  EXPECT_GT(shorter, 0);
}

// --- files

TEST(Receives, AreReadAgainFromFiles) {
  std::mt19937_64 random(58);
  for (int i = 0; i < random_schedules() / 4; ++i) {
    const Schedule program = lower(schedule_number(i, random));
    const Costs costs = with_limited_links(testing::random_costs(random, program), random);
    for (const auto& [name, placed] : all_placed(program)) {
      if (placed.lane == TransferLane::edge) {
        const std::string text = to_program_text(placed, TransferLane::edge);
        const Schedule again = parse_schedule(text, "edge.program");
        EXPECT_EQ(again.lane, placed.has_transfers() ? TransferLane::edge : TransferLane::compute);
        EXPECT_EQ(times_of(again, costs, {P2p::edge_fifo}),
                  times_of(placed, costs, {P2p::edge_fifo}));
        EXPECT_EQ(to_program_text(again, TransferLane::edge), text);
      } else {
        EXPECT_EQ(to_csv(parse_csv(to_csv(placed), "placed.csv")), to_csv(placed)) << name;
      }
    }
    if (HasFailure()) break;
  }
}

TEST(Receives, ADependencyOnATransferStaysWhereItIs) {
  Schedule program = lower(generate({"1f1b", 2, 2}));
  program.dependencies = {{make_action(0, Kind::F, 1), make_action(1, Kind::F, 0)}};
  EXPECT_EQ(without_transfers(program).dependencies, program.dependencies);
  program.dependencies = {{make_action(0, Kind::F, 1), make_action(1, Kind::RECV_F, 0)}};
  EXPECT_NE(testing::input_error_of([&] { without_transfers(program); }).find("0F1 waits for"),
            std::string::npos);
}

}  // namespace
}  // namespace pipesim
