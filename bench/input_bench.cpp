// The parts of a prediction of an input pipeline, and the whole: MLPerf's DLRM-DCNv2, 26 tables, by
// sparse-dist on a cluster of A100s. Arguments are ranks and batches per rank.
#include <benchmark/benchmark.h>

#include "sim/cost/hardware/cluster.h"
#include "sim/input_pipeline/input_estimate.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/input_pipeline/predict/input_request.h"
#include "sim/input_pipeline/predict/simulate_input.h"
#include "sim/input_pipeline/recommendation_model.h"

namespace pipesim {
namespace {

InputRequest request_of(const benchmark::State& state) {
  InputRequest request;
  request.program.name = "sparse-dist";
  request.program.ranks = static_cast<int>(state.range(0));
  request.program.batches = static_cast<int>(state.range(1));
  request.training.emplace();
  request.training->model = read_recommendation_model("dlrm-dcnv2");
  request.training->cluster = find_cluster("dgx-a100");
  request.training->batch_size = 4096;
  return request;
}

void per_call(benchmark::State& state, const InputProgram& program) {
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * program.size());
}

void make_program(benchmark::State& state) {
  const InputRequest request = request_of(state);
  InputProgram program;
  for (auto _ : state) {
    program = make_input_program(request.program);
    benchmark::DoNotOptimize(program.calls.data());
  }
  per_call(state, program);
}

void estimate(benchmark::State& state) {
  const InputRequest request = request_of(state);
  const InputTraining& training = *request.training;
  const int ranks = request.program.ranks;
  const ShardingPlan plan = default_sharding(training.model, ranks);
  for (auto _ : state) {
    const InputCosts costs =
        estimate_input(training.model, plan, training.cluster, ranks, training.batch_size,
                       training.software, training.optimizer);
    benchmark::DoNotOptimize(costs.work.data());
  }
}

void simulate(benchmark::State& state) {
  const InputPrediction prediction = predict_input(request_of(state));
  for (auto _ : state) {
    const InputRun run = simulate_input(prediction.run.program, prediction.costs);
    benchmark::DoNotOptimize(run.spans.data());
  }
  per_call(state, prediction.run.program);
}

void measure_run(benchmark::State& state) {
  const InputPrediction prediction = predict_input(request_of(state));
  for (auto _ : state) benchmark::DoNotOptimize(measure(prediction.run).makespan_ns);
  per_call(state, prediction.run.program);
}

void predict(benchmark::State& state) {
  const InputRequest request = request_of(state);
  InputPrediction prediction;
  for (auto _ : state) {
    prediction = predict_input(request);
    benchmark::DoNotOptimize(prediction.metrics.makespan_ns);
  }
  per_call(state, prediction.run.program);
}

BENCHMARK(make_program)->Args({128, 64})->Unit(benchmark::kMillisecond);
BENCHMARK(estimate)->Args({128, 64})->Unit(benchmark::kMillisecond);
BENCHMARK(simulate)->Args({128, 64})->Args({1024, 64})->Unit(benchmark::kMillisecond);
BENCHMARK(measure_run)->Args({128, 64})->Unit(benchmark::kMillisecond);
BENCHMARK(predict)->Args({128, 64})->Args({1024, 64})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim

BENCHMARK_MAIN();
