// Layers that ranks share, ranks as threads: losses, norms, gradients and weights are those of
// one rank on which the shards take turns, bit by bit, and those of whole layers to rounding.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/cost/estimate/replicas.h"
#include "sim/schedule/family.h"
#include "tests/delayed_transport.h"
#include "tests/local_run.h"

namespace pipesim {
namespace {

using exec::RunResult;
using exec::TrainingJob;
using testing::run_locally;

struct Split {
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

TrainingJob training_of(const Schedule& schedule, const Split& split, const Model& model) {
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

std::string words_of(const Schedule& schedule, const Model& model, const Split& split) {
  return fmt::format("{} on {}, {}, {} shards{}, {} replicas, ZeRO {}", schedule.name,
                     schedule.ranks(), model.architecture == Architecture::gpt ? "gpt" : "llama",
                     split.shards, split.tokens ? " that split tokens" : "", split.replicas,
                     split.zero);
}

void expect_bitwise(const RunResult& result) {
  ASSERT_TRUE(result.verification);
  EXPECT_TRUE(result.verification->bitwise)
      << result.verification->worst << " by " << result.verification->max_rel_error;
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
            for (const char* again : {"none", "selective", "full"}) {
              const Split split{shards, tokens, replicas, 0};
              SCOPED_TRACE(words_of(schedule, model, split) + ", again " + again);
              TrainingJob training = training_of(schedule, split, model);
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

}  // namespace
}  // namespace pipesim
