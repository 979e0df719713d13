// Layers that ranks share, ranks as threads: losses, norms, gradients and weights are those of
// one rank on which the shards take turns, bit by bit, and those of whole layers to rounding.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/cost/estimate/replicas.h"
#include "sim/schedule/family.h"
#include "tests/delayed_transport.h"
#include "tests/files.h"
#include "tests/local_run.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using exec::RunResult;
using exec::TrainingJob;
using testing::expect_bitwise;
using testing::run_locally;

struct ShardSplit {
  int shards = 1;
  bool tokens = false;  // with sequence parallelism
  int replicas = 1;
  int zero = 0;
};

Model model_of(Architecture architecture, int layers) {
  Model model = testing::tiny_model(layers, architecture);
  model.heads = 4;
  model.kv_heads = 4;
  model.tied_head = architecture == Architecture::gpt;
  return model;
}

TrainingJob sharded_training(const Schedule& schedule, const ShardSplit& split,
                             const Model& model) {
  Training asked;
  asked.data_parallel = split.replicas;
  asked.zero = split.replicas > 1 ? split.zero : 0;
  TrainingJob training = testing::tiny_training(with_replicas(schedule, asked), model);
  training.data_parallel = split.replicas;
  training.zero = asked.zero;
  training.tensor_parallel = split.shards;
  training.sequence_parallel = split.tokens;
  training.sequence_length = 4;
  return training;
}

std::string describe(const Schedule& schedule, const Model& model, const ShardSplit& split) {
  return fmt::format("{} on {}, {}, {} shards{}, {} replicas, ZeRO {}", schedule.name,
                     schedule.ranks(), model.architecture == Architecture::gpt ? "gpt" : "llama",
                     split.shards, split.tokens ? " that split tokens" : "", split.replicas,
                     split.zero);
}

TEST(TensorParallel, EveryLayout) {
  int runs = 0;
  for (const Architecture architecture : {Architecture::gpt, Architecture::llama}) {
    for (const int ranks : {1, 2}) {
      const Schedule schedule = generate({.name = "1f1b", .ranks = ranks, .microbatches = 3});
      const Model model = model_of(architecture, ranks + 3);
      for (const int shards : {1, 2, 4}) {
        for (const bool tokens : {false, true}) {
          if (tokens && shards == 1) continue;
          for (const int replicas : {1, 2}) {
            for (const char* again : {"none", "selective", "norms,activation", "full"}) {
              const ShardSplit split{shards, tokens, replicas, 0};
              SCOPED_TRACE(describe(schedule, model, split) + ", again " + again);
              TrainingJob training = sharded_training(schedule, split, model);
              training.recompute = parse_recompute(again);
              training.iterations = 2;
              expect_bitwise(run_locally(training));
              ++runs;
            }
          }
        }
      }
    }
  }
  EXPECT_GE(runs, 100);
}

// With what replicas split, every kind of schedule, heads that share keys and values, biases of
// these, and matrices that both ends share, or not.
TEST(TensorParallel, EverySplitAndSchedule) {
  const std::vector<Schedule> schedules{
      generate({.name = "gpipe", .ranks = 2, .microbatches = 4}),
      generate({.name = "zb-h1", .ranks = 2, .microbatches = 3}),
      generate({.name = "interleaved", .ranks = 2, .microbatches = 4}),
      generate({.name = "bfs", .ranks = 2, .microbatches = 2, .chunks = 2, .placement = "v"})};
  for (const Schedule& schedule : schedules) {
    for (const Architecture architecture : {Architecture::gpt, Architecture::llama}) {
      for (const bool tied : {false, true}) {
        Model model = model_of(architecture, schedule.stages() + 2);
        model.tied_head = tied;
        model.kv_heads = tied ? 2 : 4;
        model.biases.qkv = tied && architecture == Architecture::llama;
        for (const ShardSplit& split :
             {ShardSplit{2, false, 1}, ShardSplit{2, true, 1}, ShardSplit{2, true, 2, 1},
              ShardSplit{2, false, 2, 2}, ShardSplit{2, true, 3, 3}}) {
          SCOPED_TRACE(describe(schedule, model, split) + (tied ? ", tied" : ""));
          TrainingJob training = sharded_training(schedule, split, model);
          training.iterations = 2;
          training.accumulate = 2;
          expect_bitwise(run_locally(training));
        }
      }
    }
  }
}

// Where ranks don't divide the tokens of a microbatch, and messages come late.
TEST(TensorParallel, WhateverComesWhen) {
  const Schedule schedule = generate({.name = "1f1b", .ranks = 2, .microbatches = 3});
  for (const bool tokens : {false, true}) {
    const ShardSplit split{2, tokens, 2, 2};
    TrainingJob training = sharded_training(schedule, split, model_of(Architecture::gpt, 4));
    if (!tokens) training.sequence_length = 3;
    if (!tokens) training.micro_batch_size = 1;
    training.iterations = 2;
    for (unsigned seed = 0; seed < 5; ++seed) {
      SCOPED_TRACE(seed);
      expect_bitwise(run_locally(training, {}, [&](exec::Transport& own) {
        return std::make_unique<testing::DelayedTransport>(
            own, 10 * seed + static_cast<unsigned>(own.rank()));
      }));
    }
  }
}

// The losses of layers that are whole, but for the order of sums.
TEST(TensorParallel, ShardsTrainWhatWholeLayersDo) {
  for (const Architecture architecture : {Architecture::gpt, Architecture::llama}) {
    const Schedule schedule = generate({.name = "1f1b", .ranks = 1, .microbatches = 2});
    const Model model = model_of(architecture, 5);
    const auto losses_of = [&](const ShardSplit& split) {
      TrainingJob training = sharded_training(schedule, split, model);
      training.iterations = 10;
      training.verify = false;
      return run_locally(training).losses;
    };
    const std::vector<double> whole = losses_of({});
    for (const ShardSplit& split :
         {ShardSplit{2, false}, ShardSplit{2, true}, ShardSplit{4, false}, ShardSplit{4, true}}) {
      SCOPED_TRACE(describe(schedule, model, split));
      const std::vector<double> losses = losses_of(split);
      ASSERT_EQ(losses.size(), whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i) {
        EXPECT_NEAR(losses[i], whole[i], 1e-5 * whole[i]) << i;
      }
    }
  }
}

// An exchange of each kind that is expected, with the bytes of what it sums up or gathers.
TEST(TensorParallel, ExchangesAreInTheTrace) {
  // An I, whose sums nothing goes on beside.
  const Schedule schedule = generate({.name = "zb-h1", .ranks = 1, .microbatches = 1});
  const Model model = model_of(Architecture::llama, 3);  // a block
  const testing::TemporaryFolder folder;
  for (const bool tokens : {false, true}) {
    TrainingJob training = sharded_training(schedule, {2, tokens}, model);
    training.record_details = true;
    training.verify = false;
    const std::string path = folder / "trace.json";
    OutputFile file(path, false);
    run_locally(training, {}, {}, &file);
    file.commit();
    std::map<std::string, std::vector<std::int64_t>> bytes;  // by action and exchange, of rank 0
    const auto trace = nlohmann::json::parse(read_file(path));
    for (const auto& event : trace.at("traceEvents")) {
      if (event.value("cat", "") != "tensor" || event.at("args").at("replica") != 0) continue;
      const auto& args = event.at("args");
      EXPECT_EQ(args.at("ranks"), 2);
      const std::int64_t took_ns = std::llround(event.at("dur").get<double>() * 1000);
      EXPECT_GT(took_ns, 0);
      EXPECT_LE(args.at("exposed_ns"), took_ns);
      bytes[args.at("of").get<std::string>() + " " + event.at("name").get<std::string>()].push_back(
          args.at("bytes"));
    }
    const std::int64_t whole = training.rows() * model.hidden_size * 4;
    const std::int64_t parts = 2 * 3 * training.rows() * 4;  // of the loss
    using Bytes = std::vector<std::int64_t>;
    if (!tokens) {
      EXPECT_EQ(bytes["0F0 all-reduce"], Bytes(3, whole));
      EXPECT_EQ(bytes["0F0 all-gather"], Bytes{parts});
      EXPECT_EQ(bytes["0I0 all-reduce"], Bytes(3, whole));
      EXPECT_EQ(bytes.size(), 3);
    } else {
      EXPECT_EQ(bytes["0F0 reduce-scatter"], Bytes(3, whole));
      EXPECT_EQ(bytes["0F0 all-gather"], (Bytes{whole, whole, whole, parts}));
      EXPECT_EQ(bytes["0I0 reduce-scatter"], Bytes(3, whole));
      EXPECT_EQ(bytes["0I0 all-gather"], Bytes(2, whole));
      EXPECT_EQ(bytes["0W0 all-gather"], Bytes(4, whole));
      EXPECT_EQ(bytes.size(), 5);
    }
  }
}

}  // namespace
}  // namespace pipesim
