// Replicas of a pipeline, ranks as threads: whatever they split, their losses, norms,
// gradients and weights are those of one rank that adds in the same order, bit by bit.
#include "sim/cost/estimate/replicas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/delayed_transport.h"
#include "tests/local_run.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using exec::RunResult;
using exec::TrainingJob;
using testing::run_locally;
using testing::tiny_model;
using testing::tiny_training;

struct Split {
  int replicas = 1;
  int zero = 0;
  std::optional<int> shard_over = {};
  std::optional<std::int64_t> bucket_bytes = {};
};

// As the simulator has the program, with transfers.
TrainingJob training_of(const Schedule& schedule, const Split& split, Model model) {
  Training asked;
  asked.data_parallel = split.replicas;
  asked.zero = split.zero;
  asked.shard_over = split.shard_over;
  asked.bucket_bytes = split.bucket_bytes;
  TrainingJob training = tiny_training(with_replicas(schedule, asked), model);
  training.data_parallel = split.replicas;
  training.zero = split.replicas > 1 ? split.zero : 0;
  training.shard_over = split.shard_over;
  training.bucket_bytes = split.bucket_bytes;
  return training;
}

std::string words_of(const Split& split) {
  return std::to_string(split.replicas) + " replicas, ZeRO " + std::to_string(split.zero) +
         (split.shard_over ? ", over " + std::to_string(*split.shard_over) : "") +
         (split.bucket_bytes ? ", buckets of " + std::to_string(*split.bucket_bytes) : "");
}

void expect_bitwise(const RunResult& result) {
  ASSERT_TRUE(result.verification);
  EXPECT_TRUE(result.verification->bitwise)
      << result.verification->worst << " by " << result.verification->max_rel_error;
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
              TrainingJob training =
                  training_of(schedule, {replicas, zero}, tiny_model(schedule.stages() + 2));
              training.recompute = recompute;
              SCOPED_TRACE(schedule.name + ", " + words_of({replicas, zero}));
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

}  // namespace
}  // namespace pipesim
