// The overhead of running a program: the worker, its mailbox and the recorder, on one rank, with a
// workload that does nothing.
#include <benchmark/benchmark.h>

#include "exec/device/devices.h"
#include "exec/run/ranks.h"
#include "exec/run/worker.h"
#include "exec/transport/local.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"

namespace {

using namespace pipesim;
using namespace pipesim::exec;

class Idle final : public Workload {
 public:
  void start_iteration(int /*iteration*/) override {}
  Tensor run(const Action& /*action*/, Tensor input) override { return input; }
  void reduce(int /*stage*/, std::int64_t /*number*/, std::int64_t /*count*/) override {}
  void reduce_tied(int /*stage*/) override {}
  Outcome find_norm(int /*stage*/) override { return {}; }
  void step(int /*stage*/, double /*gradient_norm*/) override {}
};

// Arguments: chunks on the rank, whether layers and memory are recorded. The time is per action.
void run_program(benchmark::State& state) {
  const int chunks = static_cast<int>(state.range(0));
  TrainingJob training;
  training.program = lower(generate({.name = chunks == 1 ? "1f1b" : "interleaved",
                                     .ranks = 1,
                                     .microbatches = 256,
                                     .chunks = chunks}));
  training.record_details = state.range(1) != 0;
  LocalWorld world(1);
  const auto device = make_device("cpu");
  Worker worker(training, *device, world.transport(0), Clock(),
                [](Pool&, Recorder&, OverlappedCollectives&, const std::function<void()>&) {
                  return std::make_unique<Idle>();
                });
  int iteration = 0;
  for (auto unused : state) worker.run(iteration++);
  const auto actions = static_cast<double>(training.program.actions.size());
  state.counters["time an action"] = benchmark::Counter(
      actions, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(run_program)
    ->ArgNames({"chunks", "details"})
    ->ArgsProduct({{1, 4}, {0, 1}})
    ->Iterations(200);

}  // namespace

BENCHMARK_MAIN();
