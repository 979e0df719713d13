// A prediction against a measurement: terms that sum, causes that are causes.
#include <gtest/gtest.h>

#include <random>

#include "sim/compare/comparison.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/random_schedule.h"
#include "tests/recorded.h"

namespace pipesim {
namespace {

using testing::recorded;

void expect_sums(const Comparison& comparison) {
  const auto& sides = comparison.sides;
  EXPECT_EQ(comparison.gap.total_ns(),
            sides[measured_side].makespan_ns - sides[predicted_side].makespan_ns);
  for (const SideResult& side : sides) {
    const CriticalPath& chain = side.critical_path;
    EXPECT_EQ(chain.compute_ns + chain.p2p_ns + chain.other_ns, side.played.makespan_ns);
    for (const RankMetrics& rank : side.ranks) {
      EXPECT_EQ(rank.busy_ns + rank.bubble.total_ns(), side.played.makespan_ns);
    }
  }
}

// Lateness is where the end of each operation is later than predicted.
void expect_lateness(const Comparison& comparison) {
  const Operations& operations = comparison.operations;
  for (OperationId id = 0; id < operations.size(); ++id) {
    if (!operations.matched(id) || operations.transfers(id)) continue;
    EXPECT_EQ(comparison.lateness[id].total_ns(), operations.sides[measured_side][id].end_ns -
                                                      operations.sides[predicted_side][id].end_ns)
        << to_text(operations.actions[id]);
  }
}

TEST(Compare, WithItselfIsZeroEverywhere) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    const RecordedRun run = recorded(schedule, testing::random_costs(random, schedule));
    const Comparison comparison = compare(run, run);
    expect_sums(comparison);
    EXPECT_EQ(comparison.gap.terms, Gap{}.terms);
    EXPECT_TRUE(comparison.root_causes.empty());
    EXPECT_TRUE(comparison.swapped.empty());
    EXPECT_FALSE(comparison.divergence.has_value());
    EXPECT_EQ(comparison.counts.matched, static_cast<std::int64_t>(run.spans.size()));
    EXPECT_EQ(comparison.duration_errors.value_or(DurationErrors{}).mean_abs, 0);
    for (const Lateness& late : comparison.lateness) EXPECT_EQ(late.total_ns(), 0);
    for (const ClockShift& clock : comparison.clocks) EXPECT_EQ(clock.ahead_ns, 0);
  }
}

TEST(Compare, GapTermsSumOnAnyPairOfRuns) {
  std::mt19937_64 random(2);
  int compared = 0;
  for (int i = 0; i < 2000; ++i) {
    const Schedule one = testing::random_schedule(random);
    // The same schedule, the same reordered, or another one of as many virtual stages.
    Schedule other = one;
    if (i % 3 == 1) testing::shuffle(other, random);
    if (i % 3 == 2) {
      do {
        other = testing::random_schedule(random);
      } while (other.stages() != one.stages());
    }
    RecordedRun predicted = recorded(one, testing::random_costs(random, one));
    RecordedRun measured;
    try {
      measured = recorded(other, testing::random_costs(random, other), "measured");
    } catch (const Error&) {
      continue;  // shuffled into a deadlock
    }
    // Times that no schedule explains.
    if (i % 2 == 1) {
      for (Span& span : measured.spans) {
        span.start_ns += testing::pick(random, 0, 500);
        span.end_ns = span.start_ns + testing::pick(random, 0, 900);
      }
      testing::shift_clock(measured, 0, testing::pick(random, -2000, 2000));
    }
    Comparison comparison;
    try {
      comparison = compare(predicted, measured);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_status(), 1);
      continue;  // nothing in common
    }
    ++compared;
    expect_sums(comparison);
    expect_lateness(comparison);
  }
  EXPECT_GT(compared, 1000);
}

class SlowStage : public ::testing::TestWithParam<P2p> {};

TEST_P(SlowStage, IsTheCauseAndItsVictimsAreNot) {
  SimulationOptions options;
  options.transfers.mode = GetParam();
  for (const char* family : {"gpipe", "1f1b", "zb-h1", "interleaved"}) {
    const Schedule schedule = generate({family, 4, 8});
    Costs planned = testing::costs_of(schedule.stages(), 1'000'000, 2'000'000, 20'000);
    for (StageCosts& stage : planned.stages) stage.output_bytes = 1'000;
    planned.p2p.bytes_per_second = 1'000'000'000;
    for (int slow = 0; slow < schedule.stages(); ++slow) {
      Costs costs = planned;
      costs.stages[static_cast<std::size_t>(slow)].forward_ns += 300'000;
      const Comparison comparison = compare(recorded(schedule, planned, "predicted", options),
                                            recorded(schedule, costs, "measured", options));
      expect_sums(comparison);
      // One order of all transfers of a rank may hide a stage altogether.
      if (comparison.gap.total_ns() == 0 && GetParam() == P2p::fifo) continue;
      ASSERT_FALSE(comparison.root_causes.empty()) << family << slow;
      const RootCause& cause = comparison.root_causes.front();
      EXPECT_EQ(cause.term, Term::compute);
      EXPECT_EQ(cause.stage, slow);
      EXPECT_EQ(cause.kind, Kind::F);
      EXPECT_EQ(cause.rank, schedule.placement.rank_of(slow));
      EXPECT_EQ(cause.microbatch, std::nullopt);
      EXPECT_EQ(cause.effect_ns, comparison.gap.total_ns());
      EXPECT_EQ(cause.alone_ns, comparison.gap.total_ns());
      EXPECT_EQ(comparison.gap[Term::compute], comparison.gap.total_ns());
      EXPECT_GT(comparison.gap.total_ns(), 0);
      EXPECT_EQ(comparison.root_causes.size(), 1U) << family << slow;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, SlowStage,
                         ::testing::Values(P2p::async, P2p::blocking, P2p::fifo, P2p::edge_fifo),
                         [](const auto& mode) {
                           std::string name(p2p_name(mode.param));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(Compare, ASlowLinkIsTheCause) {
  const Schedule schedule = generate({"1f1b", 4, 8});
  const Costs planned = testing::costs_of(4, 1'000'000, 2'000'000, 20'000);
  Costs costs = planned;
  costs.edges[{1, 2}] = {900'000, {}, {}};
  const Comparison comparison =
      compare(recorded(schedule, planned), recorded(schedule, costs, "measured"));
  ASSERT_EQ(comparison.root_causes.size(), 1U);
  const RootCause& cause = comparison.root_causes.front();
  EXPECT_EQ(cause.term, Term::transfer);
  EXPECT_EQ(cause.rank, 1);
  EXPECT_EQ(cause.stage, 1);
  EXPECT_EQ(cause.kind, Kind::SEND_F);
  EXPECT_EQ(comparison.gap[Term::transfer], comparison.gap.total_ns());
  EXPECT_GT(comparison.gap.total_ns(), 0);
}

TEST(Compare, AHiccupIsNamedByItsMicrobatch) {
  const Schedule schedule = generate({"gpipe", 2, 4});
  const Costs costs = testing::costs_of(2, 1'000, 2'000);
  const RecordedRun predicted = recorded(schedule, costs);
  RecordedRun measured = predicted;
  // Everything from the end of 0F2 on is 500 ns later on both ranks.
  for (Span& span : measured.spans) {
    if (span.end_ns >= 3'000) span.end_ns += 500;
    if (span.start_ns >= 3'000) span.start_ns += 500;
  }
  // Stage 1 does 1F1 meanwhile, which then takes longer, too; put that right.
  for (Span& span : measured.spans) {
    if (to_text(span.action) == "1F1") span.end_ns = span.start_ns + 1'000;
  }
  measured.iterations.front().makespan_ns += 500;
  const Comparison comparison = compare(predicted, measured);
  ASSERT_FALSE(comparison.root_causes.empty());
  const RootCause& cause = comparison.root_causes.front();
  EXPECT_EQ(cause.stage, 0);
  EXPECT_EQ(cause.kind, Kind::F);
  EXPECT_EQ(cause.microbatch, 2);
  EXPECT_EQ(cause.effect_ns, 500);
  EXPECT_EQ(comparison.gap.total_ns(), 500);
}

TEST(Compare, AShiftedClockIsAClockAndNoLateness) {
  for (const char* family : {"gpipe", "1f1b", "interleaved"}) {
    for (const std::int64_t latency : {0, 50'000, 6'000'000}) {
      const Schedule schedule = generate({family, 4, 8});
      const Costs costs = testing::costs_of(schedule.stages(), 1'000'000, 2'000'000, latency);
      const RecordedRun predicted = recorded(schedule, costs);
      for (int rank = 0; rank < 4; ++rank) {
        for (const std::int64_t ahead : {5'000'000, -5'000'000}) {
          RecordedRun measured = predicted;
          testing::shift_clock(measured, rank, ahead);
          const Comparison comparison = compare(predicted, measured);
          for (int r = 0; r < 4; ++r) {
            EXPECT_EQ(comparison.clocks[static_cast<std::size_t>(r)].ahead_ns,
                      r == rank ? ahead : 0);
          }
          expect_sums(comparison);
          EXPECT_EQ(comparison.gap[Term::clock], comparison.gap.total_ns());
          for (const Lateness& late : comparison.lateness) {
            EXPECT_EQ(late.own_ns, 0);
            EXPECT_EQ(late.total_ns(), 0);
          }
          ASSERT_EQ(comparison.root_causes.size(), 1U);
          EXPECT_EQ(comparison.root_causes.front().term, Term::clock);
          EXPECT_EQ(comparison.root_causes.front().rank, rank);
        }
      }
    }
  }
}

TEST(Compare, ASwappedPairIsAnOrderChange) {
  Schedule swapped = generate({"gpipe", 2, 4});
  const Costs costs = testing::costs_of(2, 1'000, 2'000, 100);
  const RecordedRun predicted = recorded(swapped, costs);
  const auto list = swapped.actions[1];
  std::swap(list[1], list[2]);
  const Comparison comparison = compare(predicted, recorded(swapped, costs, "measured"));
  expect_sums(comparison);
  ASSERT_EQ(comparison.swapped.size(), 1U);
  EXPECT_EQ(comparison.in_order, 15);
  const Action moved = comparison.operations.actions[comparison.swapped.front()];
  EXPECT_TRUE(to_text(moved) == "1F1" || to_text(moved) == "1F2") << to_text(moved);
  EXPECT_EQ(comparison.gap[Term::order], comparison.gap.total_ns());
  ASSERT_EQ(comparison.root_causes.size(), 1U);
  EXPECT_EQ(comparison.root_causes.front().term, Term::order);
}

TEST(Compare, WhatOnlyOneHasIsUnmodelled) {
  const Schedule schedule = generate({"1f1b", 3, 6});
  const Costs planned = testing::costs_of(3, 1'000, 2'000, 10);
  Costs costs = planned;
  costs.optimizer_ns = {500, 500, 500};
  const RecordedRun predicted = recorded(schedule, planned);
  const RecordedRun measured = recorded(schedule, costs, "measured");
  const Comparison there = compare(predicted, measured);
  EXPECT_EQ(there.gap[Term::unmodelled], 500);
  EXPECT_EQ(there.gap.total_ns(), 500);
  EXPECT_EQ(there.counts.unmatched[measured_side], 3);
  EXPECT_EQ(there.root_causes.front().kind, Kind::OPTIMIZER);
  const Comparison back = compare(measured, predicted);
  EXPECT_EQ(back.gap[Term::unmodelled], -500);
  EXPECT_EQ(back.gap.total_ns(), -500);
  EXPECT_EQ(back.counts.unmatched[predicted_side], 3);
  EXPECT_EQ(back.root_causes.front().kind, Kind::OPTIMIZER);
  EXPECT_EQ(back.root_causes.front().alone_ns, -500);
}

// Overlapped cells that a device does as two actions, one straight after the other.
RecordedRun in_two_parts(RecordedRun run, const Costs& costs) {
  for (std::size_t i = 0; i + 1 < run.spans.size(); ++i) {
    if (!run.spans[i].action.joined) continue;
    Span& forward = run.spans[i];
    Span& backward = run.spans[i + 1];
    forward.action.joined = false;
    forward.end_ns =
        forward.start_ns + costs.stages[static_cast<std::size_t>(forward.action.stage)].forward_ns;
    backward.start_ns = forward.end_ns;
  }
  std::ranges::stable_sort(run.spans, {},
                           [](const Span& span) { return std::pair(span.start_ns, span.rank); });
  return run;
}

TEST(Compare, ACellCountsAsOneHoweverItIsDone) {
  const Schedule schedule = read_csv(testing::golden("dualpipev_4rank_10mb.csv"));
  const Costs planned = testing::costs_of(schedule.stages(), 1'000'000, 2'000'000);
  const RecordedRun predicted = recorded(schedule, planned);
  const Comparison same = compare(predicted, in_two_parts(predicted, planned));
  EXPECT_EQ(same.gap.terms, Gap{}.terms);
  EXPECT_EQ(same.duration_errors.value().p90, 0);
  EXPECT_EQ(same.duration_errors.value().mean_abs, 0);
  int cells = 0;
  for (const StageKind& row : same.stage_kinds) {
    EXPECT_EQ(row.measured.p90, row.predicted.p90) << row.stage;
    cells += row.is_cell ? 1 : 0;
  }
  EXPECT_GT(cells, 0);
  for (int slow = 0; slow < schedule.stages(); ++slow) {
    Costs costs = planned;
    costs.stages[static_cast<std::size_t>(slow)].forward_ns += 700'000;
    const Comparison comparison =
        compare(predicted, in_two_parts(recorded(schedule, costs, "measured"), costs));
    expect_sums(comparison);
    for (const RootCause& cause : comparison.root_causes) {
      EXPECT_EQ(cause.stage, slow) << cause.why;
      EXPECT_EQ(cause.kind, Kind::F) << cause.why;
    }
    EXPECT_FALSE(comparison.root_causes.empty());
  }
}

TEST(Compare, TimesOfTheTraceAreThoseWithClocksPutRight) {
  const Schedule schedule = generate({"1f1b", 3, 6});
  const RecordedRun predicted = recorded(schedule, testing::costs_of(3, 1'000'000, 2'000'000));
  for (const int rank : {0, 1}) {
    RecordedRun measured = predicted;
    testing::shift_clock(measured, rank, -5'000'000);
    const SideResult side = compare(predicted, measured).sides[measured_side];
    EXPECT_EQ(side.start_ns, 0) << rank;
  }
}

// Closing work that waits for all ranks is late with them, and no cause.
TEST(Compare, AStepThatWaitsForAllIsNoCauseOfWaiting) {
  const Schedule schedule = generate({"gpipe", 3, 4});
  Costs costs = testing::costs_of(3, 1'000, 2'000);
  costs.optimizer_ns = {100, 100, 100};
  const RecordedRun predicted = recorded(schedule, costs);
  costs.stages[0].forward_ns += 500;
  RecordedRun measured = recorded(schedule, costs, "measured");
  std::int64_t last = 0;
  for (const Span& span : measured.spans) {
    if (is_compute(span.action.kind)) last = std::max(last, span.end_ns);
  }
  for (Span& span : measured.spans) {
    if (span.action.kind != Kind::OPTIMIZER) continue;
    span.start_ns = last;
    span.end_ns = last + 100;
  }
  std::ranges::stable_sort(measured.spans, {},
                           [](const Span& span) { return std::pair(span.start_ns, span.rank); });
  const Comparison comparison = compare(predicted, measured);
  expect_sums(comparison);
  EXPECT_EQ(comparison.root_causes.front().stage, 0);
  EXPECT_EQ(comparison.root_causes.front().effect_ns, comparison.gap.total_ns());
  EXPECT_EQ(comparison.gap[Term::compute], comparison.gap.total_ns());
}

TEST(Compare, NothingInCommonSaysWhatEachHolds) {
  const RecordedRun predicted = recorded(generate({"gpipe", 2, 2}), testing::costs_of(2, 10, 20));
  RecordedRun measured = predicted;
  measured.name = "run.json";
  for (Span& span : measured.spans) span.action.microbatch += 7;
  const std::string message = testing::error_of([&] { compare(predicted, measured); });
  EXPECT_NE(message.find("run.json holds"), std::string::npos) << message;
  EXPECT_NE(message.find("0F7"), std::string::npos) << message;
}

// A slack is by how much an action may take longer before the run does.
TEST(Compare, SlackIsWhatAnActionMayTakeLonger) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    const RecordedRun run = recorded(schedule, testing::random_costs(random, schedule));
    const Comparison comparison = compare(run, run);
    const Operations& operations = comparison.operations;
    const Order order = order_of(operations, measured_side, P2p::async, false);
    Values values = values_of(operations, measured_side, order);
    Replay replay(operations);
    const ReplayTimes& played = comparison.sides[measured_side].played;
    for (const OperationId id : order.sequence) {
      if (operations.transfers(id)) continue;
      for (const std::int64_t more : {std::int64_t{0}, std::int64_t{1}, std::int64_t{100}}) {
        values.duration[id] += played.slack_ns[id] + more;
        EXPECT_EQ(replay.makespan_ns(order, values), played.makespan_ns + more);
        values.duration[id] -= played.slack_ns[id] + more;
      }
    }
  }
}

// ---- Which messages are told from waiting

Comparison of_second(const RecordedRun& run) {
  RecordedRun plan = run;
  plan.about.source = Source::predicted;
  return compare(plan, run);
}

// What the receiver of each message had begun last before that came, by the spans alone.
std::int64_t count_busy_receivers(const RecordedRun& run) {
  std::int64_t busy = 0;
  for (const Span& receive : run.spans) {
    if (!is_receive(receive.action.kind)) continue;
    std::int64_t sent_ns = 0;
    std::int64_t begun_ns = -1;
    std::int64_t until_ns = 0;
    for (const Span& span : run.spans) {
      const bool is_its_send = is_send(span.action.kind) &&
                               peer_of(span.action).stage == receive.action.stage &&
                               peer_of(span.action).kind == receive.action.kind &&
                               span.action.microbatch == receive.action.microbatch;
      if (is_its_send) sent_ns = span.start_ns;
      if (span.rank != receive.rank || is_transfer(span.action.kind)) continue;
      if (span.start_ns >= receive.end_ns || span.start_ns <= begun_ns) continue;
      begun_ns = span.start_ns;
      until_ns = span.end_ns;
    }
    busy += begun_ns >= 0 && until_ns > sent_ns ? 1 : 0;
  }
  return busy;
}

TEST(WireTimes, AreToldWhereBothEndsWereSeen) {
  const Schedule schedule = generate({"1f1b", 4, 8});
  RecordedRun run = recorded(schedule, testing::costs_of(4, 1'000'000, 2'000'000, 700'000));
  const std::int64_t messages = 2 * 3 * 8;
  const std::int64_t busy = count_busy_receivers(run);
  ASSERT_GT(busy, 0);
  ASSERT_LT(busy, messages);
  const auto wire = [&] { return of_second(run).sides[measured_side].wire; };
  const auto expect = [&](std::int64_t told, std::int64_t as_usual, std::int64_t seen_late) {
    EXPECT_EQ(wire().messages(), messages);
    EXPECT_EQ(wire().told, told);
    EXPECT_EQ(wire().as_usual, as_usual);
    EXPECT_EQ(wire().seen_late, seen_late);
  };
  expect(messages, 0, 0);  // a prediction
  run.about.source = Source::profiled;
  run.about.device = "NVIDIA H100";
  expect(messages, 0, 0);
  run.about.device = "CPU";
  expect(messages - busy, 0, busy);
  run.about.source = Source::measured;
  run.about.transport = "nccl";
  expect(messages, 0, 0);
  run.about.transport = "mpi";
  const WireTimes by_hosts = wire();
  EXPECT_EQ(by_hosts.messages(), messages);
  EXPECT_GT(by_hosts.as_usual, 0);
  EXPECT_LE(by_hosts.as_usual, busy);
}

TEST(WireTimes, AreNotToldWhereAnEndIsMissing) {
  const Schedule schedule = generate({"interleaved", 2, 4});
  const RecordedRun whole =
      recorded(schedule, testing::costs_of(schedule.stages(), 1'000'000, 2'000'000, 50'000));
  const std::int64_t messages = compare(whole, whole).sides[measured_side].wire.messages();
  EXPECT_EQ(messages, 2 * 3 * 4);  // four stages on two ranks
  const auto without = [&](auto leaves_out) {
    RecordedRun run = whole;
    std::erase_if(run.spans, leaves_out);
    run.iterations.front().end = run.spans.size();
    run.about.source = Source::profiled;
    return compare(whole, run).sides[measured_side].wire;
  };
  const WireTimes none = without([](const Span& span) { return is_transfer(span.action.kind); });
  EXPECT_EQ(none.not_recorded, messages);
  EXPECT_EQ(none.messages(), messages);
  const WireTimes half = without([](const Span& span) { return span.action.kind == Kind::RECV_F; });
  EXPECT_EQ(half.one_end, messages / 2);
  EXPECT_EQ(half.told, messages / 2);
}

// Stage 1's gradients travel while stage 0's are made, or behind them.
TEST(Compare, NamesAReductionThatIsNotOverlapped) {
  Costs costs = testing::costs_of(2, 100, 200);
  costs.stages[1].reduce.bytes = 150;
  costs.collective_links = {{0, 1'000'000'000}};
  costs.optimizer_ns = {10};
  const RecordedRun predicted =
      recorded(parse_csv("0F0,1F0,1B0,1REDUCE_GRAD,0B0\n", "a.csv"), costs);
  const RecordedRun measured =
      recorded(parse_csv("0F0,1F0,1B0,0B0,1REDUCE_GRAD\n", "b.csv"), costs, "measured");
  const Comparison comparison = compare(predicted, measured);
  expect_sums(comparison);
  expect_lateness(comparison);
  EXPECT_EQ(comparison.gap.total_ns(), 150);
  EXPECT_EQ(comparison.gap[Term::exchange], 150);
  ASSERT_EQ(comparison.root_causes.size(), 1U);
  const RootCause& cause = comparison.root_causes.front();
  EXPECT_EQ(cause.term, Term::exchange);
  EXPECT_EQ(cause.stage, 1);
  EXPECT_EQ(cause.kind, Kind::REDUCE_GRAD);
  EXPECT_EQ(cause.effect_ns, 150);
  EXPECT_EQ(cause.why,
            "rank 0 waits 150 ns for 1REDUCE_GRAD instead of 0 ms; nothing of "
            "it overlaps compute, not 150 ns");
  ASSERT_EQ(comparison.collectives.rows.size(), 1U);
  const CollectiveRow& row = comparison.collectives.rows.front();
  EXPECT_EQ(row.times[predicted_side].hidden_ns, 150);
  EXPECT_EQ(row.times[predicted_side].exposed_ns(), 0);
  EXPECT_EQ(row.times[measured_side].hidden_ns, 0);
  EXPECT_EQ(row.times[measured_side].exposed_ns(), 150);
}

}  // namespace
}  // namespace pipesim
