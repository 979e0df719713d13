// Exchanges in which every replica sends each other one its part: what costs say of one, as the
// collectives of stages; how these are simulated; and that calibrating finds it again.
#include "sim/cost/estimate/direct_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sim/calibrate/calibration.h"
#include "sim/calibrate/exchange_fit.h"
#include "sim/cost/estimate/replicas.h"
#include "sim/schedule/family.h"
#include "sim/schedule/shard.h"
#include "tests/errors.h"
#include "tests/recorded.h"
#include "tests/replicas.h"
#include "traces/collective_times.h"

namespace pipesim {
namespace {

using testing::byte_a_ns;

Training replicas_of(int count, int zero = 0, std::optional<std::int64_t> bucket = {},
                     std::optional<int> over = {}) {
  Training training;
  training.data_parallel = count;
  training.zero = zero;
  training.bucket_bytes = bucket;
  training.shard_over = over;
  return training;
}

TEST(DirectExchange, CutsGradientsAsTheExecutorDoes) {
  const std::vector<std::int64_t> layers{100, 30, 0, 50};
  using Segments = std::vector<std::int64_t>;
  EXPECT_EQ(reduced_segments(layers, replicas_of(2)), (Segments{180}));
  EXPECT_EQ(reduced_segments(layers, replicas_of(2, 0, 200)), (Segments{50, 50, 50, 30}));
  EXPECT_EQ(reduced_segments(layers, replicas_of(2, 2)), (Segments{50, 30, 100}));
  EXPECT_EQ(reduced_segments(layers, replicas_of(2, 2, 400)), (Segments{50, 30, 100}));
  EXPECT_EQ(reduced_segments(layers, replicas_of(2, 2, 200)), (Segments{50, 30, 50, 50}));
  EXPECT_EQ(reduced_segments(layers, replicas_of(2, 3, 400)), (Segments{50, 30, 100}));
  EXPECT_EQ(reduced_segments({0}, replicas_of(2)), (Segments{}));
  EXPECT_EQ(reduced_segments({1 << 20, 5}, replicas_of(2)), (Segments{1 << 20, 5}));
}

TEST(DirectExchange, SendsAPartToEachOther) {
  // 3 of 4 parts to be summed up, and the sum to 3.
  EXPECT_EQ(direct_reduction(400, replicas_of(4)).bytes, 600);
  EXPECT_EQ(direct_reduction(400, replicas_of(4)).steps, 2);
  EXPECT_EQ(direct_reduction(400, replicas_of(4, 1)).bytes, 300);
  EXPECT_EQ(direct_reduction(400, replicas_of(4, 1)).steps, 1);
  // A half to the sharer; and of that half twice a half to its like.
  EXPECT_EQ(direct_reduction(400, replicas_of(4, 2, {}, 2)).bytes, 400);
  EXPECT_EQ(direct_reduction(400, replicas_of(4, 2, {}, 2)).steps, 3);
  EXPECT_EQ(direct_gather(400, replicas_of(4)).bytes, 0);
  EXPECT_EQ(direct_gather(400, replicas_of(4, 3, {}, 2)).bytes, 200);
}

// Two stages of 1000 and 400 parameters, F 100, B 1000, 10 ns a step, a byte a nanosecond.
Costs with_parameters() {
  Costs costs = testing::costs_of(2, 100, 1000);
  costs.stages[0].parameters = {600, 400};
  costs.stages[1].parameters = {400};
  for (StageCosts& stage : costs.stages) {
    stage.weight_bytes = 1000;
    stage.gradient_bytes = 1001;
    stage.optimizer_bytes = 2000;
  }
  costs.optimizer_ns = {400, 100};
  costs.replicas = {10, byte_a_ns};
  return costs;
}

Costs exchanging(const Training& training) {
  Costs costs = with_parameters();
  check_exchanges_known(costs, "costs");
  split_states(training, costs);
  add_exchanges(training, Placement::loop(2, 1), costs);
  return costs;
}

TEST(DirectExchange, BecomesTheCollectivesOfStages) {
  const Costs plain = exchanging(replicas_of(4, 0, 1600));
  EXPECT_EQ(plain.stages[0].reduce.bytes, 6000);
  EXPECT_EQ(plain.stages[0].reduce.parts, 3);
  EXPECT_EQ(plain.stages[0].reduce.part_ends, (std::vector<std::int64_t>{2400, 4800, 6000}));
  EXPECT_EQ(plain.stages[0].reduce.latency_ns, 3 * 2 * 10);
  EXPECT_EQ(plain.stages[1].reduce.bytes, 2400);
  EXPECT_FALSE(plain.stages[0].unshard.exists());
  EXPECT_EQ(plain.optimizer_ns, (std::vector<std::int64_t>{400, 100}));
  EXPECT_EQ(plain.stages[0].optimizer_bytes, 2000);
  EXPECT_FALSE(plain.replicas);

  // The optimizer steps a quarter, and gathers 3 of 4 parts.
  const Costs stepped = exchanging(replicas_of(4, 1));
  EXPECT_EQ(stepped.stages[0].reduce.bytes, 3000);
  EXPECT_EQ(stepped.optimizer_ns, (std::vector<std::int64_t>{100 + 10 + 3000, 25 + 10 + 1200}));
  EXPECT_EQ(stepped.stages[0].optimizer_bytes, 500);
  EXPECT_EQ(stepped.stages[0].gradient_bytes, 1001);

  const Costs whole = exchanging(replicas_of(4, 3));
  EXPECT_EQ(whole.stages[0].unshard.bytes, 3000);
  EXPECT_EQ(whole.stages[0].unshard.parts, 1);
  EXPECT_EQ(whole.stages[0].unsharded_bytes, 4000);
  EXPECT_EQ(whole.stages[0].gradient_bytes, 251);
  EXPECT_EQ(whole.stages[0].weight_bytes, 250);
  EXPECT_EQ(whole.optimizer_ns, (std::vector<std::int64_t>{100, 25}));
  EXPECT_EQ(parse_costs(to_json(whole), "c.json").costs.stages, whole.stages);
}

TEST(DirectExchange, RefusesWhatIsNotKnown) {
  Costs costs = with_parameters();
  const auto refuse = [&](const std::string& part) {
    const std::string error =
        testing::input_error_of([&] { check_exchanges_known(costs, "c.json"); });
    EXPECT_NE(error.find("c.json: "), std::string::npos);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  costs.stages[1].parameters.clear();
  refuse("the number of parameters that replicas exchange is missing");
  costs = with_parameters();
  costs.stages[1].reduce.bytes = 5;
  refuse("keep one");
  costs.replicas.reset();
  refuse("calibrate it from a run with --data-parallel");

  const auto refuse_text = [&](const std::string& keys, const std::string& part) {
    const std::string text = R"({"format":"pipesim-costs","version":1,"stages":[{"forward_ns":1,)"
                             R"("backward_ns":2)" +
                             keys;
    const std::string error = testing::input_error_of([&] { parse_costs(text, "c.json"); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  refuse_text(R"(}],"replicas":{"latency_ns":1}})", "give each stage or layer its parameters");
  refuse_text(R"(,"parameters":[]}]})", "an empty list");
  refuse_text(R"(,"parameters":-1}]})", "out of range");
  refuse_text(R"(,"reduce":{"bytes":5,"parts":2,"part_bytes":[2,2]}}]})",
              "give 2 numbers that sum to 5");
  refuse_text(R"(,"reduce":{"bytes":5,"parts":2,"part_bytes":[5]}}]})", "give 2 numbers");
}

// One stage, F 100, B 1000, of which the gradients are reduced: when that starts and ends.
std::pair<std::int64_t, std::int64_t> reduced(CollectiveCosts reduce) {
  Costs costs = testing::costs_of(1, 100, 1000);
  reduce.side_by_side = true;
  costs.stages[0].reduce = std::move(reduce);
  costs.collective_links = {{0, byte_a_ns}};
  const Schedule schedule = shard(generate({.name = "gpipe", .ranks = 1, .microbatches = 1}), {});
  const RecordedRun run = testing::recorded(schedule, costs);
  const auto found = std::ranges::find(run.spans, Kind::REDUCE_GRAD,
                                       [](const Span& span) { return span.action.kind; });
  return {found->start_ns, found->end_ns};
}

TEST(SideBySide, PartsShareTheLinkAndNotTheirLatency) {
  // Of 1000 ns from 100 on, gradients of the first part are there after 400, of the next two
  // after 800 and 1000.
  const std::vector<std::int64_t> ends{400, 800, 1000};
  EXPECT_EQ(reduced({.latency_ns = 30, .bytes = 1000, .parts = 3, .part_ends = ends}),
            (std::pair<std::int64_t, std::int64_t>{500, 500 + 1000 + 10}));
  // A link that is busy all the while: bytes one after the other, and then one latency.
  EXPECT_EQ(reduced({.latency_ns = 300, .bytes = 5000, .parts = 2, .part_ends = {2500, 5000}}),
            (std::pair<std::int64_t, std::int64_t>{600, 600 + 5000 + 150}));
  EXPECT_EQ(reduced({.latency_ns = 300, .bytes = 5000, .parts = 2}),
            (std::pair<std::int64_t, std::int64_t>{600, 600 + 5000 + 150}));
}

// What makes gradients waits for those before to be reduced, where it adds to them.
TEST(SideBySide, HeldGradientsLetTheNextBackwardWait) {
  Costs costs = testing::costs_of(1, 100, 1000);
  costs.stages[0].reduce = {.latency_ns = 50, .bytes = 300};
  costs.collective_links = {{0, byte_a_ns}};
  const Schedule schedule = shard(generate({.name = "gpipe", .ranks = 1, .microbatches = 3}),
                                  {.reduce = ReplicaSharding::Reduce::every_backward});
  EXPECT_EQ(simulate(schedule, costs).makespan_ns, 3 * 1100 + 350);
  costs.stages[0].reduce.holds_gradients = true;
  const Metrics held = simulate(schedule, costs);
  EXPECT_EQ(held.makespan_ns, 3 * 1100 + 3 * 350);
  EXPECT_EQ(held.ranks[0].bubble.p2p_ns, 3 * 350) << "a wait for an exchange";
}

// ---- Calibrating

// A run of those replicas, as if it had been measured.
RecordedRun measured_run(const Training& training, const std::string& name) {
  const Schedule schedule =
      with_replicas(generate({.name = "1f1b", .ranks = 2, .microbatches = 4}), training);
  RecordedRun run = testing::recorded(schedule, exchanging(training), name);
  run.about.source = Source::measured;
  run.about.replicas = training.data_parallel;
  run.about.zero = training.zero;
  run.about.shards = training.shards();
  run.about.bucket_bytes = training.bucket_bytes.value_or(0);
  run.about.costs_json = to_json(with_parameters());  // as an emulated device says
  // A rank comes to each action straight from the one before.
  std::map<std::int32_t, std::int64_t> free_ns;
  for (Span& span : run.spans) {
    if (!is_compute(span.action.kind)) continue;
    span.queued_ns = span.start_ns - free_ns[span.rank];
    free_ns[span.rank] = span.end_ns;
  }
  return run;
}

std::int64_t makespan_of(Costs costs, const Training& training) {
  const Schedule schedule =
      with_replicas(generate({.name = "1f1b", .ranks = 2, .microbatches = 4}), training);
  split_states(training, costs);
  add_exchanges(training, Placement::loop(2, 1), costs);
  return simulate(schedule, costs).makespan_ns;
}

// From two sizes of buckets: other buckets, other numbers of replicas, what they split.
TEST(CalibratedExchanges, PredictOtherLayoutsExactly) {
  const std::vector<RecordedRun> runs{measured_run(replicas_of(4), "a.json"),
                                      measured_run(replicas_of(4, 0, 400), "b.json")};
  const CostsFile file = calibrate(runs).costs;
  ASSERT_TRUE(file.costs.replicas);
  EXPECT_EQ(file.costs.replicas->latency_ns, 10);
  EXPECT_NEAR(static_cast<double>(*file.costs.replicas->bytes_per_second), 1e9, 1e4);
  EXPECT_EQ(file.costs.stages[0].parameters, (std::vector<std::int64_t>{600, 400}));
  EXPECT_EQ(file.costs.stages[1].parameters, (std::vector<std::int64_t>{400}));
  EXPECT_EQ(parse_costs(to_json(file), "c.json").costs.replicas, file.costs.replicas);
  const Costs found = file.resolve(Placement::loop(2, 1), {});
  const Costs given = with_parameters();
  for (const Training& training :
       {replicas_of(4, 0, 1000), replicas_of(2), replicas_of(8, 0, 640), replicas_of(4, 1),
        replicas_of(4, 2), replicas_of(4, 3), replicas_of(8, 3, {}, 2)}) {
    EXPECT_NEAR(static_cast<double>(makespan_of(found, training)),
                static_cast<double>(makespan_of(given, training)), 3);
  }
}

TEST(CalibratedExchanges, StatesAndStepsAreThoseOfOneReplica) {
  for (const int zero : {1, 2, 3}) {
    const std::vector<RecordedRun> runs{measured_run(replicas_of(4, zero), "a.json"),
                                        measured_run(replicas_of(2, zero), "b.json")};
    const CostsFile file = calibrate(runs).costs;
    ASSERT_TRUE(file.costs.replicas) << zero;
    const Costs found = file.resolve(Placement::loop(2, 1), {});
    ASSERT_EQ(found.optimizer_ns.size(), 2U);
    EXPECT_NEAR(static_cast<double>(found.optimizer_ns[0]), 400, 8) << zero;
    EXPECT_NEAR(static_cast<double>(found.optimizer_ns[1]), 100, 8) << zero;
  }
}

// If the number of parameters is not given, it follows from what was sent.
TEST(CalibratedExchanges, TellParametersByBytes) {
  RecordedRun run = measured_run(replicas_of(8, 1, 400), "a.json");
  run.about.costs_json.clear();
  const CostsFile file = calibrate(std::vector<RecordedRun>{run}).costs;
  EXPECT_EQ(file.costs.stages[0].parameters, (std::vector<std::int64_t>{1000}));
  EXPECT_EQ(file.costs.stages[1].parameters, (std::vector<std::int64_t>{400}));
}

TEST(CalibratedExchanges, OfOneReplicaSayNothing) {
  RecordedRun run = testing::recorded(generate({.name = "1f1b", .ranks = 2, .microbatches = 4}),
                                      testing::costs_of(2, 100, 200), "a.json");
  EXPECT_FALSE(calibrate(std::vector<RecordedRun>{run}).costs.costs.replicas);
}

// ---- The fit by itself

// Ends by the definition, piece by piece, for ranks that exchange at random.
std::vector<RankExchanges> random_exchanges(double ns_per_byte, double latency_ns) {
  std::mt19937_64 random(5);
  std::vector<RankExchanges> ranks;
  for (int i = 0; i < 40; ++i) {
    RankExchanges& rank = ranks.emplace_back();
    double ready = 0;
    double free = 0;
    double turn = 0;
    for (std::size_t collective = 0; collective < 3; ++collective) {
      double end = 0;
      const auto pieces = testing::pick(random, 1, 4);
      for (int k = 0; k < pieces; ++k) {
        ready += static_cast<double>(testing::pick(random, 0, 3000));
        const auto bytes = static_cast<double>(testing::pick(random, 1, 2000));
        const auto steps = static_cast<int>(testing::pick(random, 1, 3));
        const bool in_turn = i % 2 == 0 || testing::pick(random, 0, 1) == 0;
        rank.pieces.push_back({ready, bytes, steps, collective, in_turn});
        free = std::max({free, ready, in_turn ? turn : 0}) + bytes * ns_per_byte;
        if (in_turn) turn = free + steps * latency_ns;
        end = std::max(end, free + steps * latency_ns);
      }
      rank.ends_ns.push_back(end);
    }
  }
  return ranks;
}

TEST(ExchangeFit, FindsWhatItWasMadeWith) {
  for (const double ns_per_byte : {0.0, 0.01, 0.5, 1.0, 3.0}) {
    for (const double latency_ns : {0.0, 20.0, 700.0}) {
      if (ns_per_byte == 0 && latency_ns == 0) continue;
      const ExchangeFit fit = fit_exchanges(random_exchanges(ns_per_byte, latency_ns));
      EXPECT_NEAR(fit.ns_per_byte, ns_per_byte, 1e-4) << latency_ns;
      EXPECT_NEAR(fit.latency_ns, latency_ns, 0.05) << ns_per_byte;
      EXPECT_TRUE(fit.is_told_apart);
      EXPECT_EQ(fit.collectives, 120);
    }
  }
}

TEST(ExchangeFit, AFewThatWereHeldUpCountLittle) {
  std::vector<RankExchanges> ranks = random_exchanges(1, 100);
  for (std::size_t i = 0; i < ranks.size(); i += 8) ranks[i].ends_ns.back() += 50'000;
  const ExchangeFit fit = fit_exchanges(ranks);
  EXPECT_NEAR(fit.ns_per_byte, 1, 0.01);
  EXPECT_NEAR(fit.latency_ns, 100, 5);
  EXPECT_NEAR(*std::ranges::max_element(fit.off_ns), 50'000, 100);
}

TEST(ExchangeFit, OneSizeIsAllBandwidth) {
  const std::vector<RankExchanges> ranks{{{{0, 1000, 2, 0}}, {2500}}, {{{50, 1000, 2, 0}}, {2550}}};
  const ExchangeFit fit = fit_exchanges(ranks);
  EXPECT_FALSE(fit.is_told_apart);
  EXPECT_EQ(fit.latency_ns, 0);
  EXPECT_NEAR(fit.ns_per_byte, 2.5, 1e-9);
  EXPECT_EQ(fit_exchanges({}).collectives, 0);
}

}  // namespace
}  // namespace pipesim
