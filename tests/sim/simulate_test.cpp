// The evaluation against the brute-force oracle, and against known makespans.
#include "sim/engine/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/engine/prediction.h"
#include "sim/engine/record_run.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/lower.h"
#include "tests/oracle.h"
#include "tests/random_schedule.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

using testing::costs_of;

void expect_equal(const Metrics& metrics, const oracle::Result& truth) {
  ASSERT_EQ(metrics.makespan_ns, truth.makespan);
  ASSERT_EQ(metrics.ranks.size(), truth.ranks.size());
  for (std::size_t r = 0; r < metrics.ranks.size(); ++r) {
    SCOPED_TRACE("rank " + std::to_string(r));
    const RankMetrics& got = metrics.ranks[r];
    const oracle::Rank& want = truth.ranks[r];
    EXPECT_EQ(got.busy_ns, want.busy);
    EXPECT_EQ(got.first_start_ns, want.first_start);
    EXPECT_EQ(got.last_end_ns, want.last_end);
    EXPECT_EQ(got.bubble.warmup_ns, want.warmup);
    EXPECT_EQ(got.bubble.steady_ns, want.steady);
    EXPECT_EQ(got.bubble.drain_ns, want.drain);
    EXPECT_EQ(got.bubble.p2p_ns, want.p2p);
    EXPECT_EQ(got.bubble.total_ns(), metrics.makespan_ns - got.busy_ns);
  }
  const CriticalPath& path = metrics.critical_path;
  EXPECT_EQ(path.compute_ns, truth.path_compute);
  EXPECT_EQ(path.p2p_ns, truth.path_p2p);
  EXPECT_EQ(path.other_ns, truth.path_other);
  EXPECT_EQ(path.compute_ns + path.p2p_ns + path.other_ns, metrics.makespan_ns);
}

TEST(Simulate, EqualsTheOracleOnRandomSchedules) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const Schedule schedule = i % 5 == 0 ? testing::random_schedule_with_copies(random)
                                         : testing::random_schedule(random);
    ASSERT_FALSE(find_fault(schedule).has_value());
    Costs costs = testing::random_costs(random, schedule);
    testing::add_messages(costs, random);
    const auto truth = oracle::run(schedule, costs);
    ASSERT_TRUE(truth);
    std::map<std::tuple<int, Kind, int>, std::pair<std::int64_t, std::int64_t>> times;
    SimulationOptions options;
    options.sink = [&](const Span& span) {
      if (is_compute(span.action.kind)) {
        times[{span.action.stage, span.action.kind, span.action.microbatch}] = {span.start_ns,
                                                                                span.end_ns};
      }
    };
    expect_equal(simulate(schedule, costs, options), *truth);
    ASSERT_EQ(times.size(), truth->times.size());
    for (const auto& [key, when] : truth->times) {
      EXPECT_EQ(times.at(key), std::pair(when.start, when.end));
    }
    if (HasFailure()) break;
  }
}

// Peaks are compared where every action takes time: the oracle orders memory
// by the clock alone, which says nothing of actions of no length.
TEST(Simulate, PeaksEqualTheOracleWhereTimesArePositive) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 500; ++i) {
    const Schedule schedule = i % 5 == 0 ? testing::random_schedule_with_copies(random)
                                         : testing::random_schedule(random);
    Costs costs = testing::random_costs(random, schedule);
    for (StageCosts& stage : costs.stages) {
      stage.forward_ns += 1;
      stage.backward_input_ns += 1;
      stage.backward_weight_ns += 1;
      if (stage.overlap_ns) *stage.overlap_ns += 1;
    }
    const auto truth = oracle::run(schedule, costs);
    ASSERT_TRUE(truth);
    const Metrics metrics = simulate(schedule, costs);
    for (std::size_t r = 0; r < truth->ranks.size(); ++r) {
      ASSERT_EQ(metrics.ranks[r].peak_activation_bytes, truth->ranks[r].peak_bytes) << "case " << i;
      ASSERT_EQ(metrics.ranks[r].peak_activation_chunks, truth->ranks[r].peak_chunks)
          << "case " << i;
    }
  }
}

TEST(Simulate, ALoweredProgramTakesTheTimeOfItsComputeSchedule) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    const Schedule schedule = i % 5 == 0 ? testing::random_schedule_with_copies(random)
                                         : testing::random_schedule(random);
    const Costs costs = testing::random_costs(random, schedule);
    const Schedule program = lower(schedule);
    ASSERT_FALSE(find_fault(program).has_value()) << find_fault(program)->rule;
    const auto truth = oracle::run(program, costs);
    ASSERT_TRUE(truth);
    expect_equal(simulate(program, costs), *truth);
    ASSERT_EQ(simulate(program, costs).makespan_ns, simulate(schedule, costs).makespan_ns);
  }
}

// A SEND need not follow its producer at once: what its rank does in between
// delays the receiver.
TEST(Simulate, LateSendsDelayAndStandOnThePath) {
  const Schedule late = parse_csv(
      "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
      "late.csv");
  const Metrics metrics = simulate(late, costs_of(2, 10, 20));
  EXPECT_EQ(metrics.makespan_ns, 100);
  EXPECT_EQ(metrics.critical_path.compute_ns, 100);
  std::mt19937_64 random(17);
  for (int i = 0; i < 1000; ++i) {
    Schedule program = lower(testing::random_schedule(random));
    testing::shuffle(program, random);
    const Costs costs = testing::random_costs(random, program);
    const auto truth = oracle::run(program, costs);
    if (!truth) {
      EXPECT_THROW(simulate(program, costs), Error);
      continue;
    }
    SCOPED_TRACE(to_csv(program));
    expect_equal(simulate(program, costs), *truth);
    if (HasFailure()) break;
  }
}

// Makespans recorded from SimGrid 3.32 on the same problem (F = 1 ms, B = 2 ms,
// 45 us a hop, transfers that hold no device).
TEST(Simulate, AgreesWithSimGrid) {
  const auto makespan_ms = [](int p, int m) {
    const auto ns =
        simulate(generate({"1f1b", p, m}), costs_of(p, 1'000'000, 2'000'000, 45'000)).makespan_ns;
    return static_cast<double>(ns) / 1e6;
  };
  EXPECT_NEAR(makespan_ms(8, 64), 218.58, 1e-9);
  EXPECT_NEAR(makespan_ms(64, 256), 985.26, 1e-9);
  EXPECT_NEAR(makespan_ms(64, 1024), 3357.30, 1e-9);
  EXPECT_NEAR(makespan_ms(256, 4096), 13443.06, 1e-9);
}

TEST(Simulate, ArrivalAddsLatencyAndTheBytesTerm) {
  Costs costs = costs_of(2, 1000, 2000, 7);
  costs.stages[0].output_bytes = 10;
  costs.p2p.bytes_per_second = 3'000'000'000;  // 10 B take 3.33 ns: 4
  const Metrics metrics = simulate(generate({"1f1b", 2, 1}), costs);
  EXPECT_EQ(metrics.makespan_ns, 1000 + 11 + 3000 + 11 + 2000);
  EXPECT_EQ(metrics.critical_path.p2p_ns, 22);
  costs.edges[{1, 0}] = {100, {}};
  EXPECT_EQ(simulate(generate({"1f1b", 2, 1}), costs).makespan_ns, 1000 + 11 + 3000 + 100 + 2000);
}

TEST(Simulate, AnOverlappedCellTakesBothTimesUnlessACostIsGiven) {
  const Schedule schedule = parse_csv("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n", "overlap.csv");
  Costs costs = costs_of(1, 10, 20);
  EXPECT_EQ(simulate(schedule, costs).makespan_ns, 10 + 30 + 20);
  costs.stages[0].forward_messages_ns = 3;
  costs.stages[0].backward_messages_ns = 4;
  EXPECT_EQ(simulate(schedule, costs).makespan_ns, 13 + 37 + 24);
  costs.stages[0].overlap_ns = 23;
  EXPECT_EQ(simulate(schedule, costs).makespan_ns, 13 + 23 + 24);
  EXPECT_EQ(simulate(schedule, costs).ranks[0].peak_activation_chunks, 2);
}

TEST(Simulate, ClosingWorkFollowsARanksLastAction) {
  Costs costs = costs_of(2, 10, 20);
  costs.reduce_gradients_ns = {5, 6};
  costs.optimizer_ns = {100, 1};
  const Metrics metrics = simulate(generate({"1f1b", 2, 1}), costs);
  EXPECT_EQ(metrics.makespan_ns, 10 + 10 + 20 + 20 + 105);
  EXPECT_EQ(metrics.ranks[1].busy_ns, 37);
  EXPECT_EQ(metrics.critical_path.other_ns, 105);
}

constexpr Kind closing_kinds[] = {Kind::REDUCE_GRAD, Kind::REDUCE_TIED, Kind::GRAD_NORM,
                                  Kind::OPTIMIZER};

// What closing work takes is what its spans in the first iteration take.
TEST(Simulate, ClosingTimesAreThoseOfTheFirstIterationsSpans) {
  std::mt19937_64 random(41);
  std::map<Kind, int> found;
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const Schedule schedule = testing::random_schedule(random);
    const Costs costs = testing::without_bytes(testing::random_costs(random, schedule));
    SimulationOptions options;
    options.iterations = static_cast<int>(testing::pick(random, 1, 3));
    options.always_by_events = i % 2 == 1;
    std::map<std::pair<int, Kind>, std::int64_t> want;
    options.sink = [&](const Span& span) {
      if (!is_closing(span.action) || span.iteration > 0) return;
      want[{span.rank, span.action.kind}] += span.end_ns - span.start_ns;
    };
    const Metrics metrics = simulate(schedule, costs, options);
    const Metrics stored = record_run(schedule, costs).metrics(0);
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      for (const Kind kind : closing_kinds) {
        const std::int64_t ns = want[{rank, kind}];
        found[kind] += ns > 0;
        EXPECT_EQ(metrics.ranks[static_cast<std::size_t>(rank)].closing.of(kind), ns);
        EXPECT_EQ(stored.ranks[static_cast<std::size_t>(rank)].closing.of(kind), ns);
      }
    }
    if (HasFailure()) break;
  }
  for (const Kind kind : closing_kinds) EXPECT_GT(found[kind], 30) << kind_name(kind);
}

TEST(Simulate, ReductionTimeIsSharedByAListsReduceActions) {
  const Schedule schedule = parse_csv("0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD\n", "reduce.csv");
  Costs costs = costs_of(2, 10, 20);
  costs.reduce_gradients_ns = {7};
  const RecordedRun timeline = record_run(schedule, costs);
  std::vector<std::int64_t> lengths;
  for (const Span& span : timeline.spans) {
    if (span.action.kind == Kind::REDUCE_GRAD) lengths.push_back(span.end_ns - span.start_ns);
  }
  EXPECT_EQ(lengths, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(timeline.spans.back().end_ns, 67);
}

// REDUCE_TIED begins when first and last stage are through, GRAD_NORM when all ranks are, and
// the chain to them leads through the rank that came last.
TEST(Simulate, ABlockingCollectiveBeginsWithTheLastOfItsGroup) {
  Costs costs = costs_of(3, 10, 20);
  costs.stages[1].backward_weight_ns += 100;
  costs.optimizer_ns = {1, 1, 1};
  costs.tied_gradients =
      GroupCosts{.latency_ns = 7, .bytes = 100, .bytes_per_second = 1'000'000'000};
  costs.gradient_norm = GroupCosts{.latency_ns = 3};
  const Schedule schedule = generate({"gpipe", 3, 1});
  for (const bool by_events : {false, true}) {
    SimulationOptions options;
    options.always_by_events = by_events;
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> times;
    options.sink = [&](const Span& span) {
      times[to_text(span.action)] = {span.start_ns, span.end_ns};
    };
    const Metrics metrics = simulate(schedule, costs, options);
    // 3 F, then 20 of the last, 120 of the middle and 20 of the first stage.
    EXPECT_EQ(times.at("0REDUCE_TIED"), std::pair(std::int64_t{190}, std::int64_t{297}));
    EXPECT_EQ(times.at("2REDUCE_TIED"), times.at("0REDUCE_TIED"));
    EXPECT_EQ(times.count("1REDUCE_TIED"), 0);
    EXPECT_EQ(times.at("1GRAD_NORM"), std::pair(std::int64_t{297}, std::int64_t{300}));
    EXPECT_EQ(times.at("2OPTIMIZER"), std::pair(std::int64_t{300}, std::int64_t{301}));
    EXPECT_EQ(metrics.makespan_ns, 301);
    EXPECT_EQ(metrics.critical_path.compute_ns, 190);
    EXPECT_EQ(metrics.critical_path.other_ns, 111);
    EXPECT_EQ(metrics.ranks[2].busy_ns, 30 + 107 + 3 + 1);
    EXPECT_EQ(metrics.ranks[2].closing.of(Kind::REDUCE_GRAD), 0);
    EXPECT_EQ(metrics.ranks[2].closing.of(Kind::REDUCE_TIED), 107);
    EXPECT_EQ(metrics.ranks[1].closing.of(Kind::REDUCE_TIED), 0);
    EXPECT_EQ(metrics.ranks[1].closing.of(Kind::GRAD_NORM), 3);
    EXPECT_EQ(metrics.ranks[1].closing.of(Kind::OPTIMIZER), 1);
  }
}

// One of a rank alone is there, and takes no time.
// On links that it has in common with others, a group's exchange and theirs share the rate.
// Of one byte a nanosecond here: rank 1 reduces 60 bytes from 70 on, ranks 0 and 2 add up 100
// from 90 on. Then each has half of it until 170, when rank 1's last 40 are gone; by 230 the
// other 60 are.
TEST(Simulate, ABlockingCollectiveSharesItsLinks) {
  Costs costs = costs_of(3, 10, 20);
  costs.shared_links = {{"card", 1'000'000'000}};
  costs.tied_gradients = GroupCosts{.latency_ns = 7, .bytes = 100, .through = {0}};
  costs.collective_links.assign(3, {0, {}, {0}});
  costs.stages[1].reduce = {0, 60, 1};
  const Schedule schedule = generate({"gpipe", 3, 1});
  const auto tied = [&] {
    std::pair<std::int64_t, std::int64_t> time;
    SimulationOptions options;
    options.sink = [&](const Span& span) {
      if (span.action.kind == Kind::REDUCE_TIED) time = {span.start_ns, span.end_ns};
    };
    simulate(schedule, costs, options);
    return time;
  };
  EXPECT_EQ(tied(), std::pair(std::int64_t{90}, std::int64_t{237}));
  costs.stages[1].reduce = {};
  EXPECT_EQ(tied(), std::pair(std::int64_t{90}, std::int64_t{197}));
  // Alone it takes what costs say of it, also by a narrower link of its own.
  costs.tied_gradients->bytes_per_second = 500'000'000;
  EXPECT_EQ(tied().second, 90 + costs.group_ns(Kind::REDUCE_TIED, schedule.placement));
  EXPECT_EQ(tied().second, 297);
}

TEST(Simulate, AGroupOfOneExchangesNothing) {
  Costs costs = costs_of(2, 10, 20);
  costs.tied_gradients = costs.gradient_norm = GroupCosts{.latency_ns = 7};
  const RecordedRun run = record_run(generate({"interleaved", 1, 2, 2}), costs);
  EXPECT_EQ(run.iterations.front().makespan_ns, 2 * 2 * 30);
  EXPECT_EQ(to_text((run.spans.end() - 2)->action), "0REDUCE_TIED");
  EXPECT_EQ(to_text((run.spans.end() - 1)->action), "0GRAD_NORM");
}

// A rank that comes last because it waits for its replicas: whoever ends last, the chain goes
// through what it waited for.
TEST(Simulate, TheChainToAGroupCrossesACollective) {
  for (const bool first_steps : {false, true}) {
    Costs costs = costs_of(2, 10, 20);
    costs.stages[1].reduce = {600, 1, 1};
    costs.gradient_norm = GroupCosts{.latency_ns = 7};
    costs.optimizer_ns =
        first_steps ? std::vector<std::int64_t>{50, 0} : std::vector<std::int64_t>{0, 50};
    const Schedule schedule = generate({"1f1b", 2, 2});
    const CriticalPath stored = record_run(schedule, costs).metrics(0).critical_path;
    for (const CriticalPath& path : {simulate(schedule, costs).critical_path, stored}) {
      EXPECT_EQ(path.compute_ns, 70);
      EXPECT_EQ(path.p2p_ns, 600);
      EXPECT_EQ(path.other_ns, 57);
    }
  }
}

// Metrics of a stored run follow the same chain.
TEST(Simulate, StoredSpansFollowTheLastOfAGroup) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const Schedule schedule = testing::random_schedule(random);
    Costs costs = testing::without_bytes(testing::random_costs(random, schedule));
    costs.gradient_norm = GroupCosts{.latency_ns = testing::pick(random, 0, 9)};
    testing::take_time(costs);
    const CriticalPath live = simulate(schedule, costs).critical_path;
    const CriticalPath stored = record_run(schedule, costs).metrics(0).critical_path;
    EXPECT_EQ(stored.compute_ns, live.compute_ns);
    EXPECT_EQ(stored.p2p_ns, live.p2p_ns);
    EXPECT_EQ(stored.other_ns, live.other_ns);
    if (HasFailure()) break;
  }
}

TEST(Simulate, NamesTheCycleOfADeadlock) {
  try {
    simulate(generate({"interleaved", 8, 12, 2}), costs_of(16, 1, 2));
    FAIL() << "p8 v2 m12 deadlocks";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_status(), 2);
    EXPECT_NE(std::string(error.what()).find("waits for"), std::string::npos) << error.what();
  }
}

TEST(Simulate, SpansOfATimelineAreWhatTheMetricsCameFrom) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    Costs costs = testing::without_bytes(testing::random_costs(random, schedule));
    // Who is in a group, spans that come one by one do not tell.
    costs.tied_gradients = costs.gradient_norm = std::nullopt;
    const Metrics live = simulate(schedule, costs);
    std::vector<Span> spans;
    SimulationOptions options;
    options.sink = [&](const Span& span) { spans.push_back(span); };
    simulate(schedule, costs, options);
    const std::vector<Span> told = spans;  // each rank's in the order of its list
    std::ranges::stable_sort(spans, {}, &Span::start_ns);
    const Metrics again =
        measure(spans, schedule.ranks(), schedule.stages(), schedule.microbatches);
    EXPECT_EQ(again.makespan_ns, live.makespan_ns);
    EXPECT_EQ(again.critical_path.p2p_ns, live.critical_path.p2p_ns);
    EXPECT_EQ(again.peak_activation_chunks(), live.peak_activation_chunks());
    const std::vector<StageFootprint> footprints = costs.footprints(schedule.placement);
    std::vector<MemoryMeter> meters(static_cast<std::size_t>(schedule.ranks()));
    for (const Span& span : told) {
      if (!is_compute(span.action.kind)) continue;
      meters[static_cast<std::size_t>(span.rank)].step(
          span.action, footprints[static_cast<std::size_t>(span.action.stage)], span.start_ns,
          span.end_ns);
    }
    for (std::size_t rank = 0; rank < meters.size(); ++rank) {
      EXPECT_EQ(meters[rank].peak_activation_bytes(), live.ranks[rank].peak_activation_bytes);
    }
    EXPECT_DOUBLE_EQ(again.global_bubble(), live.global_bubble());
  }
}

}  // namespace
}  // namespace pipesim
