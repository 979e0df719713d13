#include "tests/local_run.h"

#include <gtest/gtest.h>

#include <utility>

#include "exec/run/ranks.h"
#include "sim/cost/layout.h"
#include "sim/schedule/lower.h"
#include "tests/devices.h"

namespace pipesim::testing {

Model tiny_model(int layers, Architecture architecture) {
  Model model;
  model.name = "tiny";
  model.shape_as(architecture);
  model.blocks = layers - 2;
  model.hidden_size = 8;
  model.heads = 2;
  model.kv_heads = architecture == Architecture::llama ? 1 : 2;
  model.mlp_size = 12;
  model.vocabulary_size = 128;
  model.max_sequence_length = 8;
  model.dropout_ppm = 100'000;
  return model;
}

exec::TrainingJob tiny_training(const Schedule& schedule, const Model& model) {
  exec::TrainingJob training;
  training.program = schedule.has_transfers() ? schedule : lower(schedule);
  training.model = model;
  training.layout = even_layout(model.layers(), schedule.stages());
  training.micro_batch_size = 2;
  training.sequence_length = 3;
  training.iterations = 1;
  training.warmup = 0;
  training.verify = true;
  return training;
}

exec::RunResult run_locally(const exec::TrainingJob& training,
                            std::optional<std::int64_t> eager_limit_bytes, const Wrap& wrap,
                            OutputFile* trace, const std::vector<exec::Clock>& clocks,
                            const exec::Checkpointing& checkpointing) {
  exec::RunResult result;
  exec::run_as_threads(
      static_cast<int>(training.mesh().ranks()), eager_limit_bytes, [&](exec::Transport& own) {
        const auto wrapped = wrap ? wrap(own) : nullptr;
        const auto device = make_test_device();
        const auto ignore = [](int, const std::optional<exec::Outcome>&) {};
        const bool first = own.rank() == 0;
        const auto clock =
            clocks.empty() ? exec::Clock() : clocks[static_cast<std::size_t>(own.rank())];
        exec::Transport& transport = wrapped ? *wrapped : own;
        exec::TrainingJob job = training;
        exec::Checkpointing how = checkpointing;
        if (job.saves || !job.resume.empty()) {
          how.start = find_start(job, transport, [](const std::string&) {});
          if (how.start) job.first_iteration = how.start->state.iteration;
        }
        exec::RunResult mine =
            run_session(job, *device, transport, ignore, first ? trace : nullptr, clock, how);
        if (first) result = std::move(mine);
      });
  return result;
}

void expect_bitwise(const exec::RunResult& result) {
  ASSERT_TRUE(result.verification);
  EXPECT_TRUE(result.verification->bitwise)
      << result.verification->worst << " by " << result.verification->max_rel_error;
}

}  // namespace pipesim::testing
