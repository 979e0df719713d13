#include "tests/local_run.h"

#include <exception>
#include <thread>

#include "exec/device/devices.h"
#include "exec/transport/local.h"
#include "sim/cost/layout.h"
#include "sim/schedule/lower.h"

namespace pipesim::testing {

Model tiny_model(int layers, Architecture architecture) {
  Model model;
  model.name = "tiny";
  model.architecture = architecture;
  model.blocks = layers - 2;
  model.hidden_size = 8;
  model.heads = 2;
  model.mlp_size = 12;
  model.vocabulary_size = 128;
  model.max_sequence_length = 8;
  model.dropout_ppm = 100'000;
  return model;
}

exec::Training tiny_training(const Schedule& schedule, const Model& model) {
  exec::Training training;
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

exec::RunResult run_locally(const exec::Training& training,
                            std::optional<std::int64_t> eager_limit_bytes, const Wrap& wrap,
                            OutputFile* trace) {
  const int ranks = training.program.ranks();
  exec::LocalWorld world(ranks, eager_limit_bytes);
  exec::RunResult result;
  const auto work = [&](int rank) -> std::exception_ptr {
    exec::Transport& own = world.transport(rank);
    try {
      const auto wrapped = wrap ? wrap(own) : nullptr;
      const auto device = exec::make_device("cpu");
      const auto ignore = [](int, double) {};
      exec::RunResult mine = run_session(training, *device, wrapped ? *wrapped : own, ignore,
                                         rank == 0 ? trace : nullptr);
      if (rank == 0) result = std::move(mine);
    } catch (const exec::PeerFailed&) {
    } catch (...) {
      own.fail();
      return std::current_exception();
    }
    return nullptr;
  };
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] { failures[static_cast<std::size_t>(rank)] = work(rank); });
    }
  }
  for (const auto& own : failures) {
    if (own) std::rethrow_exception(own);
  }
  return result;
}

}  // namespace pipesim::testing
