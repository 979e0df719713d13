// What replicas exchange: collectives beside what ranks compute, against closed
// forms and the rules that they keep.
#include "tests/replicas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sim/engine/prediction.h"
#include "sim/engine/prepare.h"
#include "sim/engine/record_run.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/replica_oracle.h"
#include "traces/bubbles.h"

namespace pipesim {
namespace {

using testing::byte_a_ns;
using testing::costs_of;
using StartAndEnd = std::pair<std::int64_t, std::int64_t>;

// F 100, B 200; ranks exchange a byte a nanosecond with their replicas.
Costs replicated(int stages, int ranks) {
  Costs costs = costs_of(stages, 100, 200);
  costs.collective_links.assign(static_cast<std::size_t>(ranks), {0, byte_a_ns});
  return costs;
}

RecordedRun timeline_of(const std::string& csv, const Costs& costs) {
  const Schedule schedule = parse_csv(csv, "r.csv");
  costs.check(schedule.placement, schedule.microbatches, "costs");
  return record_run(schedule, costs);
}

// When an action happened; of a collective the `number`-th of its stage.
StartAndEnd times_of(const RecordedRun& timeline, const std::string& text, int number = 0) {
  for (const Span& span : timeline.spans) {
    if (to_text(span.action) != text) continue;
    if (is_collective(span.action) && span.action.number != number) continue;
    return {span.start_ns, span.end_ns};
  }
  ADD_FAILURE() << "no " << text;
  return {};
}

Metrics metrics_of(const std::string& csv, const Costs& costs) {
  return simulate(parse_csv(csv, "r.csv"), costs);
}

// ---- Reductions

// Stage 1's gradients travel while stage 0's are made, for 200 ns.
TEST(Replicas, AReductionIsHiddenWhereComputeIsLonger) {
  const std::string csv = "0F0,1F0,1B0,1REDUCE_GRAD,0B0\n";
  Costs costs = replicated(2, 1);
  const std::int64_t alone = metrics_of(csv, costs).makespan_ns;
  ASSERT_EQ(alone, 600);
  for (const std::int64_t bytes : {1, 150, 200, 201, 350}) {
    costs.stages[1].reduce.bytes = bytes;
    const Metrics metrics = metrics_of(csv, costs);
    const std::int64_t exposed = std::max<std::int64_t>(bytes - 200, 0);
    EXPECT_EQ(metrics.makespan_ns, alone + exposed) << bytes;
    EXPECT_EQ(metrics.ranks[0].busy_ns, 600);
    EXPECT_EQ(metrics.ranks[0].bubble.p2p_ns, exposed);
    EXPECT_EQ(metrics.critical_path.compute_ns, 600);
    EXPECT_EQ(metrics.critical_path.p2p_ns, exposed);
    EXPECT_EQ(metrics.critical_path.other_ns, 0);
  }
}

TEST(Replicas, AReductionDelaysTheOptimizer) {
  Costs costs = replicated(1, 1);
  costs.optimizer_ns = {30};
  costs.stages[0].reduce = {.latency_ns = 7, .bytes = 500};
  const RecordedRun timeline = timeline_of("0F0,0B0,0REDUCE_GRAD\n", costs);
  EXPECT_EQ(times_of(timeline, "0REDUCE_GRAD"), StartAndEnd(300, 807));
  EXPECT_EQ(times_of(timeline, "0OPTIMIZER"), StartAndEnd(807, 837));
  // A rank whose list has none does the same after its last action.
  const RecordedRun same = timeline_of("0F0,0B0\n", costs);
  EXPECT_EQ(times_of(same, "0REDUCE_GRAD"), StartAndEnd(300, 807));
  EXPECT_EQ(times_of(same, "0OPTIMIZER"), StartAndEnd(807, 837));
}

// n parts of r each while a backward of d makes them: part k may go once k/n of it
// is done, so that the last ends at max(d + r, d/n + n r).
TEST(Replicas, PartsOfAReductionGoWhileTheBackwardRuns) {
  for (const std::int64_t parts : {1, 2, 4, 5, 10}) {
    for (const std::int64_t part_ns : {1, 19, 20, 21, 50, 60, 300}) {
      Costs costs = replicated(1, 1);
      costs.stages[0].reduce = {.latency_ns = 0, .bytes = parts * part_ns, .parts = parts};
      const RecordedRun timeline = timeline_of("0F0,0B0,0RESHARD,0REDUCE_GRAD\n", costs);
      const std::int64_t start = 100 + 200 / parts;
      const std::int64_t end = std::max(100 + 200 + part_ns, start + parts * part_ns);
      EXPECT_EQ(times_of(timeline, "0REDUCE_GRAD"), StartAndEnd(start, end))
          << parts << " " << part_ns;
    }
  }
}

// What is not straight behind its gradients goes when the rank comes to it. Both are
// one wait of the optimizer.
TEST(Replicas, AReductionThatStandsApartGoesWhenItIsCalled) {
  Costs costs = replicated(2, 1);
  costs.stages[0].reduce = costs.stages[1].reduce = {.latency_ns = 0, .bytes = 400, .parts = 4};
  const std::string csv = "0F0,1F0,1B0,0B0,1REDUCE_GRAD,0REDUCE_GRAD\n";
  const RecordedRun timeline = timeline_of(csv, costs);
  EXPECT_EQ(times_of(timeline, "1REDUCE_GRAD"), StartAndEnd(600, 1000));
  EXPECT_EQ(times_of(timeline, "0REDUCE_GRAD"), StartAndEnd(1000, 1400));
  EXPECT_EQ(metrics_of(csv, costs).ranks[0].bubble.p2p_ns, 800);
}

TEST(Replicas, ReducesWhatAWMakes) {
  Costs costs = replicated(1, 1);
  costs.stages[0].reduce = {.latency_ns = 0, .bytes = 20, .parts = 2};
  const RecordedRun timeline = timeline_of("0F0,0I0,0W0,0REDUCE_GRAD\n", costs);
  EXPECT_EQ(times_of(timeline, "0REDUCE_GRAD"), StartAndEnd(250, 310));
}

TEST(Replicas, ReducesOverAndOver) {
  Costs costs = replicated(1, 1);
  costs.stages[0].reduce = {.latency_ns = 0, .bytes = 250};
  const RecordedRun timeline = timeline_of("0F0,0B0,0REDUCE_GRAD,0F1,0B1,0REDUCE_GRAD\n", costs);
  EXPECT_EQ(times_of(timeline, "0REDUCE_GRAD", 0), StartAndEnd(300, 550));
  EXPECT_EQ(times_of(timeline, "0REDUCE_GRAD", 1), StartAndEnd(600, 850));
}

// ---- Gathering

// n parts of g each, of which F, of n c, needs one after the other.
TEST(Replicas, AForwardTakesWeightsAsTheyCome) {
  for (const std::int64_t parts : {1, 2, 4, 5, 10, 20}) {
    for (const std::int64_t part_ns : {1, 4, 5, 6, 10, 20, 70}) {
      Costs costs = replicated(1, 1);
      costs.stages[0].unshard = {.latency_ns = 0, .bytes = parts * part_ns, .parts = parts};
      const RecordedRun timeline = timeline_of("0UNSHARD,0F0,0B0,0RESHARD\n", costs);
      const std::int64_t share = 100 / parts;
      const std::int64_t end = part_ns <= share ? part_ns + parts * share : parts * part_ns + share;
      EXPECT_EQ(times_of(timeline, "0UNSHARD"), StartAndEnd(0, parts * part_ns));
      EXPECT_EQ(times_of(timeline, "0F0"), StartAndEnd(part_ns, end)) << parts << " " << part_ns;
      EXPECT_EQ(times_of(timeline, "0B0"), StartAndEnd(end, end + 200));
    }
  }
}

// Stage 1's weights come while stage 0 computes; they are awaited for 30 ns.
TEST(Replicas, WeightsAreGatheredAhead) {
  Costs costs = replicated(2, 1);
  costs.stages[0].unshard = {.latency_ns = 10, .bytes = 40};
  costs.stages[1].unshard = {.latency_ns = 10, .bytes = 120};
  const std::string csv = "0UNSHARD,1UNSHARD,0F0,1F0,1B0,1RESHARD,0B0,0RESHARD\n";
  const RecordedRun timeline = timeline_of(csv, costs);
  EXPECT_EQ(times_of(timeline, "0UNSHARD"), StartAndEnd(0, 50));
  EXPECT_EQ(times_of(timeline, "1UNSHARD"), StartAndEnd(50, 180));
  EXPECT_EQ(times_of(timeline, "0F0"), StartAndEnd(50, 150));
  EXPECT_EQ(times_of(timeline, "1F0"), StartAndEnd(180, 280));
  EXPECT_EQ(times_of(timeline, "1RESHARD"), StartAndEnd(480, 480));
  EXPECT_EQ(times_of(timeline, "0RESHARD"), StartAndEnd(680, 680));
  const Metrics metrics = metrics_of(csv, costs);
  EXPECT_EQ(metrics.makespan_ns, 680);
  EXPECT_EQ(metrics.ranks[0].bubble.p2p_ns, 80);
  EXPECT_EQ(metrics.ranks[0].bubble.total_ns(), 80);
  EXPECT_EQ(metrics.critical_path.p2p_ns, 80);
  EXPECT_EQ(metrics.critical_path.compute_ns, 600);
}

TEST(Replicas, WithoutUnshardNothingIsGathered) {
  Costs costs = replicated(1, 1);
  costs.stages[0].unshard.bytes = 40;
  costs.stages[0].unsharded_bytes = 1000;
  EXPECT_EQ(prepare(parse_csv("0F0,0B0\n", "r.csv"), costs, {}).evaluation, Evaluation::alone);
  EXPECT_EQ(timeline_of("0F0,0B0\n", costs).spans.size(), 2U);
  // And what is gathered is not gathered again.
  const RecordedRun timeline = timeline_of("0UNSHARD,0F0,0UNSHARD,0B0,0RESHARD\n", costs);
  EXPECT_EQ(timeline.spans.size(), 5U);  // with an OPTIMIZER, which ends what collectives do
  EXPECT_EQ(times_of(timeline, "0B0"), StartAndEnd(140, 340));
  EXPECT_EQ(times_of(timeline, "0OPTIMIZER"), StartAndEnd(340, 340));
}

// ---- Links, pace, memory

// A reduction and a result leave through one card at 100, each at half its rate:
// the reduction's 100 bytes take until 300; of the result's 200 the other half goes
// at full rate.
TEST(Replicas, ShareACardWithTransfers) {
  Costs costs = costs_of(2, 100, 200);
  costs.stages[0].output_bytes = 200;
  costs.shared_links = {{"card", byte_a_ns}};
  costs.edges[{0, 1}] = {0, {}, {0}};
  costs.stages[0].reduce.bytes = 100;
  costs.collective_links = {{0, {}, {0}}, {}};
  const RecordedRun timeline = timeline_of("0F0,0REDUCE_GRAD,0B0,0REDUCE_GRAD\n1F0,1B0\n", costs);
  EXPECT_EQ(times_of(timeline, "0REDUCE_GRAD"), StartAndEnd(100, 300));
  EXPECT_EQ(times_of(timeline, "0SEND_F0"), StartAndEnd(100, 400));
  EXPECT_EQ(times_of(timeline, "1F0"), StartAndEnd(400, 500));
  // Its own link is the narrower one: a quarter, which leaves three to the result.
  costs.collective_links[0].bytes_per_second = byte_a_ns / 4;
  const RecordedRun narrow = timeline_of("0F0,0REDUCE_GRAD,0B0,0REDUCE_GRAD\n1F0,1B0\n", costs);
  EXPECT_EQ(times_of(narrow, "0SEND_F0"), StartAndEnd(100, 367));  // 100 + 200 / 0.75
  EXPECT_EQ(times_of(narrow, "0REDUCE_GRAD"), StartAndEnd(100, 500));
  // Rank 1's weights go the same way, 100 of 150 bytes alone: then three share, until
  // 250, and two, until 350.
  costs.stages[1].unshard.bytes = 150;
  costs.collective_links = {{0, {}, {0}}, {0, {}, {0}}};
  const RecordedRun three =
      timeline_of("0F0,0REDUCE_GRAD,0B0,0REDUCE_GRAD\n1UNSHARD,1F0,1B0,1RESHARD\n", costs);
  EXPECT_EQ(times_of(three, "1UNSHARD"), StartAndEnd(0, 250));
  EXPECT_EQ(times_of(three, "0REDUCE_GRAD"), StartAndEnd(100, 350));
  EXPECT_EQ(times_of(three, "0SEND_F0"), StartAndEnd(100, 450));
  EXPECT_EQ(times_of(three, "1F0"), StartAndEnd(450, 550));
}

// While 80 ns of a collective last, compute takes twice as long.
TEST(Replicas, SlowComputeDown) {
  Costs costs = replicated(2, 1);
  costs.compute_slowdown_ppm = 1'000'000;
  costs.stages[1].unshard.bytes = 80;
  const RecordedRun timeline = timeline_of("1UNSHARD,0F0,1F0,1B0,1RESHARD,0B0\n", costs);
  EXPECT_EQ(times_of(timeline, "0F0"), StartAndEnd(0, 140));
  EXPECT_EQ(times_of(timeline, "1F0"), StartAndEnd(140, 240));
  // Its own weights in parts: half of it, while they come, takes 80; the other half
  // of 50 starts with the second part, at 80.
  costs.stages[1].unshard.parts = 2;
  const RecordedRun streamed = timeline_of("0F0,1UNSHARD,1F0,1B0,1RESHARD,0B0\n", costs);
  EXPECT_EQ(times_of(streamed, "1F0"), StartAndEnd(140, 260));
}

TEST(Replicas, WeightsTakeMemoryUntilTheyAreReleased) {
  Costs costs = replicated(2, 1);
  for (StageCosts& stage : costs.stages) {
    stage.activation_bytes = 10;
    stage.weight_bytes = 3;
    stage.unshard.bytes = 50;
  }
  costs.stages[0].unsharded_bytes = 1000;
  costs.stages[1].unsharded_bytes = 2000;
  const Schedule schedule =
      parse_csv("0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1B0,1RESHARD,0UNSHARD,0B0,0RESHARD\n", "r.csv");
  const Prediction prediction = predict(schedule, costs, nullptr, {});
  // What is released and what comes at one instant are not there together.
  const MemoryPeak& peak = prediction.memory[0].peak;
  EXPECT_EQ(peak.bytes, (WorkingBytes{20, 0, 0, 0, 2000}));
  EXPECT_EQ(peak.time_ns, 200);
  EXPECT_EQ(to_text(peak.action), "1F0");
  EXPECT_EQ(prediction.memory[0].total(), 2026);
  EXPECT_EQ(prediction.metrics.ranks[0].peak_activation_bytes, 20);
  // Released before they are there, which they are at 50, they take none from then on.
  const RecordedRun early = timeline_of("0UNSHARD,0RESHARD,0F0,1F0,1B0,0B0\n", costs);
  EXPECT_EQ(times_of(early, "0RESHARD"), StartAndEnd(50, 50));
  EXPECT_EQ(times_of(early, "0F0"), StartAndEnd(50, 150));
}

TEST(Replicas, HaveNoClosedForm) {
  const Family& one = family("1f1b");
  const Shape shape = resolve_shape(one, {"1f1b", 2, 4});
  Costs costs = costs_of(2, 100, 200);
  const Schedule schedule = generate(one, shape);
  EXPECT_TRUE(predict(schedule, costs, &one, shape).closed_form.has_value());
  costs.stages[0].reduce.bytes = 1;
  EXPECT_EQ(predict(schedule, costs, &one, shape).no_closed_form,
            "replicas exchange weights or gradients");
}

TEST(Replicas, RefusesMoreThanItReckonsWith) {
  Costs costs = replicated(1, 1);
  costs.stages[0].reduce.bytes = 1;
  EXPECT_EQ(testing::input_error_of([&] {
              metrics_of("0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD,0REDUCE_GRAD,0REDUCE_GRAD\n", costs);
            }),
            "r.csv: rank 0 has 0REDUCE_GRAD more than 3 times, three for each microbatch; leave "
            "some out");
}

// ---- Any schedule

// Never deadlocks; collectives of a rank follow each other; what needs weights starts
// with their first part and ends a part's share after their last; an optimizer steps
// when all is reduced; all gathered is released.
TEST(Replicas, KeepTheirRulesOnAnySchedule) {
  std::mt19937_64 random(41);
  for (int i = 0; i < 1500; ++i) {
    const testing::ReplicaCase made = testing::random_replicas(random);
    SCOPED_TRACE(to_csv(made.schedule) + to_json(made.costs));
    const RecordedRun timeline = record_run(made.schedule, made.costs, made.options);
    struct Rank {
      std::int64_t collectives_end_ns = 0, compute_end_ns = 0;
      std::map<int, const Span*> fresh;
    };
    std::vector<Rank> ranks(static_cast<std::size_t>(made.schedule.ranks()));
    std::map<std::pair<int, Kind>, std::int64_t> counts;
    for (const Span& span : timeline.spans) {
      Rank& rank = ranks[static_cast<std::size_t>(span.rank)];
      const Action& action = span.action;
      if (is_collective(action)) {
        EXPECT_EQ(action.number, (counts[{action.stage, action.kind}]++)) << to_text(action);
        if (action.kind == Kind::RESHARD) continue;
        EXPECT_GE(span.start_ns, rank.collectives_end_ns);
        EXPECT_GT(span.bytes, 0);
        rank.collectives_end_ns = span.end_ns;
        if (action.kind == Kind::UNSHARD) rank.fresh[action.stage] = &span;
        continue;
      }
      if (action.kind == Kind::OPTIMIZER) {
        EXPECT_GE(span.start_ns, rank.collectives_end_ns);
      }
      if (!is_compute(action.kind)) continue;
      if (const auto gather = rank.fresh.find(action.stage); gather != rank.fresh.end()) {
        const Span& weights = *gather->second;
        EXPECT_GE(span.start_ns, weights.input_arrival_ns) << to_text(action);
        EXPECT_GE(span.end_ns, weights.end_ns) << to_text(action);
        rank.fresh.erase(gather);
      }
    }
    if (made.is_scattered) continue;
    std::map<std::pair<int, Kind>, std::int64_t> listed;
    for (const Action& action : made.schedule.actions.all()) {
      const StageCosts& stage = made.costs.stages[static_cast<std::size_t>(action.stage)];
      const bool counts_here =
          action.kind == Kind::REDUCE_GRAD ? stage.reduce.exists() : stage.unshard.exists();
      if (is_of_replicas(action.kind) && counts_here) ++listed[{action.stage, action.kind}];
    }
    for (int stage = 0; stage < made.schedule.stages(); ++stage) {
      const bool reduces = made.costs.stages[static_cast<std::size_t>(stage)].reduce.exists();
      if (reduces) listed.try_emplace({stage, Kind::REDUCE_GRAD}, 1);
    }
    EXPECT_EQ(counts, listed);
    if (HasFailure()) return;
  }
}

// Every time is the oracle's, where links are unlimited.
TEST(Replicas, TakeTheOraclesTimes) {
  std::mt19937_64 random(47);
  for (int i = 0; i < 1500; ++i) {
    testing::ReplicaCase made = testing::random_replicas(random);
    made.options.transfers.mode = P2p::async;
    made.costs = testing::without_bytes(made.costs);
    made.costs.collective_links.clear();
    made.costs.compute_slowdown_ppm = 0;
    made.costs.tied_gradients = made.costs.gradient_norm = std::nullopt;
    SCOPED_TRACE(to_csv(made.schedule) + to_json(made.costs));
    const oracle::ReplicaTimes want = oracle::replica_times(made.schedule, made.costs);
    oracle::ReplicaTimes got;
    for (const Span& span : record_run(made.schedule, made.costs, made.options).spans) {
      const Action& a = span.action;
      if (is_transfer(a.kind) || a.kind == Kind::RESHARD || a.kind == Kind::OPTIMIZER) continue;
      const int number = is_collective(a) ? a.number : a.microbatch;
      got[{a.stage, a.kind, number}] = {span.start_ns, span.end_ns};
    }
    ASSERT_EQ(got, want);
  }
}

// Collectives that take no time change nothing but the memory.
TEST(Replicas, OfNoLengthChangeNoTime) {
  std::mt19937_64 random(42);
  for (int i = 0; i < 300; ++i) {
    testing::ReplicaCase made = testing::random_replicas(random);
    // Where a RECV holds its rank, it is not what is awaited last.
    if (made.options.transfers.mode == P2p::blocking) made.options.transfers.mode = P2p::fifo;
    made.costs.collective_links.clear();
    made.costs.compute_slowdown_ppm = 0;
    made.costs.tied_gradients = made.costs.gradient_norm = std::nullopt;
    Costs none = made.costs;
    for (std::size_t s = 0; s < none.stages.size(); ++s) {
      made.costs.stages[s].unshard.latency_ns = made.costs.stages[s].reduce.latency_ns = 0;
      made.costs.stages[s].unsharded_bytes = none.stages[s].unsharded_bytes = 0;
      none.stages[s].unshard = none.stages[s].reduce = {};
    }
    const Metrics with = simulate(made.schedule, made.costs, made.options);
    const Metrics without = simulate(made.schedule, none, made.options);
    ASSERT_EQ(with.makespan_ns, without.makespan_ns);
    for (std::size_t r = 0; r < with.ranks.size(); ++r) {
      EXPECT_EQ(with.ranks[r].busy_ns, without.ranks[r].busy_ns);
      EXPECT_EQ(with.ranks[r].bubble.p2p_ns, without.ranks[r].bubble.p2p_ns);
      EXPECT_EQ(with.ranks[r].bubble.steady_ns, without.ranks[r].bubble.steady_ns);
      EXPECT_EQ(with.ranks[r].peak_memory.bytes, without.ranks[r].peak_memory.bytes);
    }
  }
}

// An evaluation's numbers are those that its spans tell.
TEST(Replicas, SpansTellTheSameBubbles) {
  std::mt19937_64 random(43);
  for (int i = 0; i < 800; ++i) {
    testing::ReplicaCase made = testing::random_replicas(random);
    made.options.transfers.mode = P2p::async;
    SCOPED_TRACE(to_csv(made.schedule) + to_json(made.costs));
    const Metrics metrics = simulate(made.schedule, made.costs, made.options);
    const RecordedRun timeline = record_run(made.schedule, made.costs, made.options);
    const Metrics told =
        measure(timeline.spans, timeline.ranks, made.schedule.stages(), timeline.microbatches);
    const auto idle = idle_spans(timeline.spans, timeline.ranks, 0, metrics.makespan_ns);
    ASSERT_EQ(told.makespan_ns, metrics.makespan_ns);
    const CriticalPath& path = metrics.critical_path;
    EXPECT_GE(path.compute_ns, 0);
    EXPECT_GE(path.p2p_ns, 0);
    EXPECT_GE(path.other_ns, 0);
    for (std::size_t r = 0; r < metrics.ranks.size(); ++r) {
      const Bubble& own = metrics.ranks[r].bubble;
      const Bubble& same = told.ranks[r].bubble;
      EXPECT_EQ(metrics.ranks[r].busy_ns, told.ranks[r].busy_ns);
      EXPECT_EQ(own.total_ns(), same.total_ns());
      EXPECT_EQ(own.p2p_ns, same.p2p_ns);
      EXPECT_EQ(own.warmup_ns, same.warmup_ns);
      EXPECT_EQ(own.steady_ns, same.steady_ns);
      std::int64_t p2p_ns = 0;
      for (const IdleSpan& one : idle) {
        if (one.rank == static_cast<int>(r) && one.kind == BubbleKind::p2p) {
          p2p_ns += one.end_ns - one.start_ns;
        }
      }
      EXPECT_EQ(p2p_ns, own.p2p_ns);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace pipesim
