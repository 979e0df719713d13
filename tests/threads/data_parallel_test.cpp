// Replicas of a pipeline, ranks as threads: whatever they split, their losses, norms,
// gradients and weights are those of one rank that adds in the same order, bit by bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "sim/cost/estimate/replicas.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/delayed_transport.h"
#include "tests/forwarding_transport.h"
#include "tests/local_run.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using exec::RunResult;
using exec::TrainingJob;
using testing::expect_bitwise;
using testing::run_locally;
using testing::tiny_model;
using testing::tiny_training;

struct Replication {
  int replicas = 1;
  int zero = 0;
  std::optional<int> shard_over = {};
  std::optional<std::int64_t> bucket_bytes = {};
  std::optional<Gather> gather = {};
};

// As the simulator has the program, with transfers.
TrainingJob replicated_training(const Schedule& schedule, const Replication& split, Model model) {
  Training asked;
  asked.data_parallel = split.replicas;
  asked.zero = split.zero;
  asked.shard_over = split.shard_over;
  asked.bucket_bytes = split.bucket_bytes;
  asked.gather = split.zero == 3 ? split.gather : std::nullopt;
  TrainingJob training = tiny_training(with_replicas(schedule, asked), model);
  training.data_parallel = split.replicas;
  training.zero = split.replicas > 1 ? split.zero : 0;
  training.shard_over = split.shard_over;
  training.bucket_bytes = split.bucket_bytes;
  training.gather = asked.gather;
  return training;
}

// Its embedding and its head have a matrix each.
Model untied_model(int layers) {
  Model model = tiny_model(layers);
  model.tied_head = false;
  return model;
}

std::string words_for(const Replication& split) {
  return std::to_string(split.replicas) + " replicas, ZeRO " + std::to_string(split.zero) +
         (split.shard_over ? ", over " + std::to_string(*split.shard_over) : "") +
         (split.bucket_bytes ? ", buckets of " + std::to_string(*split.bucket_bytes) : "") +
         (split.gather ? ", gathered for a " + std::string(gather_name(*split.gather)) : "");
}

TEST(DataParallel, EveryLayout) {
  int runs = 0;
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1"}) {
    for (int ranks = 1; ranks <= 3; ++ranks) {
      for (int replicas = 1; replicas <= 3; ++replicas) {
        for (int zero = 0; zero <= (replicas == 1 ? 0 : 3); ++zero) {
          for (const bool recompute : {false, true}) {
            for (const int microbatches : {1, 3, 6}) {
              if (std::string_view(name) == "interleaved" && microbatches % ranks != 0) continue;
              const Schedule schedule =
                  generate({.name = name, .ranks = ranks, .microbatches = microbatches});
              TrainingJob training = replicated_training(schedule, {replicas, zero},
                                                         tiny_model(schedule.stages() + 2));
              training.recompute.full = recompute;
              SCOPED_TRACE(schedule.name + ", " + words_for({replicas, zero}));
              expect_bitwise(run_locally(training));
              ++runs;
            }
          }
        }
      }
    }
  }
  EXPECT_GE(runs, 200);
}

// Hybrid sharding, buckets that end within layers and matrices, a matrix that both ends share,
// placements that come back.
TEST(DataParallel, EverySplit) {
  const std::vector<Schedule> schedules{
      generate({.name = "1f1b", .ranks = 2, .microbatches = 4}),
      generate({.name = "bfs", .ranks = 2, .microbatches = 4, .chunks = 2, .placement = "v"}),
      generate({.name = "zb-h1", .ranks = 1, .microbatches = 2}),
      generate({.name = "interleaved", .ranks = 2, .microbatches = 4})};
  const std::vector<Replication> splits{
      {4, 0},       {4, 0, {}, 1}, {4, 0, {}, 700},    {4, 1, 2}, {4, 1, 2, 700},
      {4, 1, 1, 4}, {4, 2, 1},     {4, 3, 1},          {4, 2, 2}, {4, 2, {}, 900},
      {4, 3, 2},    {4, 3, 4},     {2, 1, {}, 1 << 20}};
  for (const Schedule& schedule : schedules) {
    for (const Replication& split : splits) {
      for (const bool tied : {false, true}) {
        Model model = tiny_model(schedule.stages() + 2);
        model.tied_head = tied;
        SCOPED_TRACE(schedule.name + ", " + words_for(split) + (tied ? ", tied" : ""));
        TrainingJob training = replicated_training(schedule, split, model);
        training.iterations = 2;
        expect_bitwise(run_locally(training));
      }
    }
  }
}

// However long weights stay, layers of any number and recomputation included.
TEST(DataParallel, EveryGather) {
  int runs = 0;
  for (const Schedule& schedule :
       {generate({.name = "1f1b", .ranks = 1, .microbatches = 2}),
        generate({.name = "1f1b", .ranks = 2, .microbatches = 3}),
        generate({.name = "zb-h1", .ranks = 2, .microbatches = 3}),
        generate({.name = "interleaved", .ranks = 2, .microbatches = 4, .chunks = 2}),
        generate({.name = "bfs", .ranks = 1, .microbatches = 2, .chunks = 4})}) {
    for (const Gather gather : {Gather::window, Gather::pass, Gather::once}) {
      for (const bool recompute : {false, true}) {
        for (const int layers : {schedule.stages() + 2, 3 * schedule.stages() + 1}) {
          const Replication split{3, 3, {}, {}, gather};
          SCOPED_TRACE(schedule.name + ", " + words_for(split));
          TrainingJob training = replicated_training(schedule, split, tiny_model(layers));
          training.recompute.full = recompute;
          training.iterations = 2;
          expect_bitwise(run_locally(training));
          ++runs;
        }
      }
    }
  }
  EXPECT_EQ(runs, 60);
}

// Messages come late, and in another order wherever that is allowed.
TEST(DataParallel, WhateverComesFirst) {
  unsigned seed = 0;
  for (const int zero : {0, 1, 2, 3}) {
    for (const std::optional<std::int64_t>& eager : {std::optional<std::int64_t>(), {0}}) {
      const Schedule schedule = generate({.name = "1f1b", .ranks = 2, .microbatches = 3});
      TrainingJob training = replicated_training(schedule, {3, zero}, tiny_model(4));
      training.iterations = 3;
      seed += 10;
      SCOPED_TRACE(words_for({3, zero}));
      expect_bitwise(run_locally(training, eager, [&](exec::Transport& own) {
        return std::make_unique<testing::DelayedTransport>(
            own, seed + static_cast<unsigned>(own.rank()));
      }));
    }
  }
}

TEST(DataParallel, RandomOrders) {
  std::mt19937_64 random(24);
  for (int i = 0; i < 40; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    const int replicas = 2 + static_cast<int>(random() % 2);
    const Replication split{
        replicas, static_cast<int>(random() % 4), {}, {}, static_cast<Gather>(random() % 3)};
    SCOPED_TRACE(std::to_string(i) + ": " + words_for(split));
    TrainingJob training =
        replicated_training(schedule, split, tiny_model(std::max(4, schedule.stages())));
    training.recompute.full = random() % 2 == 0;
    expect_bitwise(run_locally(training));
  }
}

// What replicas split is there once; the rest of a rank's states is whole.
TEST(DataParallel, StatesAreSplit) {
  const Schedule schedule = generate({.name = "gpipe", .ranks = 1, .microbatches = 2});
  const auto states = [&](int zero) {
    const TrainingJob training = replicated_training(schedule, {4, zero}, untied_model(6));
    std::int64_t weights = 0, gradients = 0, optimizer = 0;
    for (const exec::RankResult& rank : run_locally(training).ranks) {
      weights += rank.memory.states.weights;
      gradients += rank.memory.states.gradients;
      optimizer += rank.memory.states.optimizer;
    }
    return std::vector{weights, gradients, optimizer};
  };
  const std::int64_t once = 4 * untied_model(6).parameters();
  EXPECT_EQ(states(0), (std::vector{4 * once, 4 * once, 8 * once}));
  EXPECT_EQ(states(1), (std::vector{4 * once, 4 * once, 2 * once}));
  EXPECT_EQ(states(2), (std::vector{4 * once, once, 2 * once}));
  EXPECT_EQ(states(3), (std::vector{once, once, 2 * once}));
}

// Layouts with the same global batch train on the same sequences: only how sums associate differs.
TEST(DataParallel, TheSameBatchTrainsAlike) {
  std::optional<std::vector<double>> first;
  for (const auto& [replicas, microbatches, batch] :
       {std::tuple(1, 8, 1), {1, 2, 4}, {2, 4, 1}, {4, 1, 2}, {4, 2, 1}}) {
    const Schedule schedule = generate({.name = "1f1b", .ranks = 2, .microbatches = microbatches});
    TrainingJob training =
        replicated_training(schedule, {replicas, replicas > 1 ? 1 : 0}, tiny_model(6));
    training.micro_batch_size = batch;
    training.iterations = 4;
    const std::vector<double> losses = run_locally(training).losses;
    if (!first) first = losses;
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], (*first)[i], 1e-5);
  }
}

// Gradients of several passes, and of fewer where a run ends before.
TEST(DataParallel, PassesAddUpToAStep) {
  const std::vector<Replication> splits{{1, 0}, {2, 0},    {3, 0, {}, 700}, {2, 1},
                                        {3, 2}, {4, 2, 2}, {3, 3}};
  for (const char* name : {"gpipe", "interleaved", "zb-h1"}) {
    for (const Replication& split : splits) {
      for (const int passes : {2, 3, 9}) {
        const Schedule schedule = generate({.name = name, .ranks = 2, .microbatches = 2});
        TrainingJob training =
            replicated_training(schedule, split, tiny_model(schedule.stages() + 2));
        training.iterations = 5;
        training.warmup = 3;
        training.accumulate = passes;
        SCOPED_TRACE(fmt::format("{}, {}, {} passes", name, words_for(split), passes));
        const RunResult result = run_locally(training);
        expect_bitwise(result);
        EXPECT_EQ(std::ssize(result.warmup_losses), (3 + passes - 1) / passes);
        EXPECT_EQ(std::ssize(result.losses), (5 + passes - 1) / passes);
        EXPECT_EQ(result.iteration_ns().size(), 5U);
        EXPECT_EQ(std::ranges::count(result.run.spans, Kind::OPTIMIZER,
                                     [](const Span& span) { return span.action.kind; }),
                  2);  // the median iteration steps
      }
    }
  }
}

// The same sequences in more passes, or in more microbatches of one.
TEST(DataParallel, PassesAreALargerBatch) {
  for (const Replication& split : {Replication{1, 0}, Replication{2, 1}, Replication{2, 3}}) {
    SCOPED_TRACE(words_for(split));
    const auto losses = [&](int passes) {
      const Schedule schedule =
          generate({.name = "gpipe", .ranks = 2, .microbatches = 12 / passes});
      TrainingJob training = replicated_training(schedule, split, tiny_model(6));
      training.iterations = 3 * passes;
      training.accumulate = passes;
      return run_locally(training).losses;
    };
    const std::vector<double> whole = losses(1);
    for (const int passes : {2, 3, 6}) {
      const std::vector<double> parts = losses(passes);
      ASSERT_EQ(parts.size(), whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-5);
      // Of one replica the very same sums.
      if (split.replicas == 1) {
        EXPECT_EQ(parts, whole);
      }
    }
  }
}

// Collectives are in the timeline, with what a rank sends.
TEST(DataParallel, CollectivesAreRecorded) {
  const Schedule schedule = generate({.name = "1f1b", .ranks = 2, .microbatches = 3});
  for (const int zero : {0, 2, 3}) {
    const TrainingJob training = replicated_training(schedule, {3, zero}, untied_model(4));
    const RunResult result = run_locally(training);
    std::map<std::string, int> count;
    std::int64_t reduced_bytes = 0;
    for (const Span& span : result.run.spans) {
      if (!is_collective(span.action)) continue;
      ++count[std::string(kind_name(span.action.kind))];
      if (span.action.kind == Kind::REDUCE_GRAD) reduced_bytes += span.bytes;
    }
    EXPECT_EQ(count["REDUCE_GRAD"], zero < 2 ? 2 : 6);
    EXPECT_EQ(count["UNSHARD"] > 0, zero == 3);
    EXPECT_EQ(count["UNSHARD"], count["RESHARD"]);
    // Of three replicas two thirds leave a rank for a reduction, and again for its result, up to
    // what parts that are not alike differ by.
    const double whole = 4.0 * static_cast<double>(untied_model(4).parameters());
    const double passes = zero < 2 ? 4.0 / 3 : 3 * 2.0 / 3;
    EXPECT_NEAR(static_cast<double>(reduced_bytes), passes * whole, 0.05 * passes * whole);
  }
}

// Notes the most messages that a wait of any rank looks at.
class LongestWait final : public testing::ForwardingTransport {
 public:
  LongestWait(exec::Transport& inner, std::atomic<std::size_t>& most)
      : ForwardingTransport(inner), most_(most) {}
  std::size_t wait_any_until(std::span<const exec::Ticket> tickets, Time until) override {
    std::size_t before = most_;
    while (before < tickets.size() && !most_.compare_exchange_weak(before, tickets.size())) {
    }
    return ForwardingTransport::wait_any_until(tickets, until);
  }

 private:
  std::atomic<std::size_t>& most_;
};

// What a message takes must not grow with the number of buckets, or an iteration grows as its
// square.
TEST(DataParallel, WaitsDoNotGrowWithBuckets) {
  const Schedule schedule = generate({.name = "gpipe", .ranks = 1, .microbatches = 1});
  for (const int zero : {0, 1, 2, 3}) {
    std::atomic<std::size_t> most = 0;
    const Replication split{.replicas = 2, .zero = zero, .bucket_bytes = 16, .gather = {}};
    expect_bitwise(run_locally(
        replicated_training(schedule, split, tiny_model(3)), {},
        [&](exec::Transport& own) { return std::make_unique<LongestWait>(own, most); }));
    EXPECT_LE(most, 200U) << words_for(split);
  }
}

}  // namespace
}  // namespace pipesim
