// The parts of a prediction, one by one: generate, evaluate, read, check.
#include <benchmark/benchmark.h>

#include "bench/problem.h"
#include "sim/advice/candidates.h"
#include "sim/cost/recut.h"
#include "sim/engine/simulate.h"
#include "sim/request/request.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/shard.h"

namespace pipesim {
namespace {

using bench::costs_of;
using bench::one_f_one_b;

void per_action(benchmark::State& state, std::int64_t actions) {
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * actions);
}

void generate_schedule(benchmark::State& state) {
  const int p = static_cast<int>(state.range(0));
  const int m = static_cast<int>(state.range(1));
  std::int64_t actions = 0;
  for (auto _ : state) {
    const Schedule schedule = one_f_one_b(p, m);
    actions = schedule.actions.size();
    benchmark::DoNotOptimize(schedule.actions.all().data());
  }
  per_action(state, actions);
}

void evaluate(benchmark::State& state) {
  const int p = static_cast<int>(state.range(0));
  const Schedule schedule = one_f_one_b(p, static_cast<int>(state.range(1)));
  const Costs costs = costs_of(p);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(schedule, costs).makespan_ns);
  per_action(state, schedule.actions.size());
}

// The same with sharded weights gathered for every pass, and gradients reduced, concurrently with
// compute.
void evaluate_replicas(benchmark::State& state) {
  const int p = static_cast<int>(state.range(0));
  const Schedule schedule =
      shard(one_f_one_b(p, static_cast<int>(state.range(1))),
            {ReplicaSharding::Reduce::every_backward, ReplicaSharding::Gather::every_pass});
  Costs costs = costs_of(p);
  for (StageCosts& stage : costs.stages) {
    stage.unshard = {1'000, 1'000'000, state.range(2)};
    stage.reduce = {1'000, 1'000'000, state.range(2)};
  }
  costs.collective_links.assign(static_cast<std::size_t>(p), {0, 25'000'000'000});
  for (auto _ : state) benchmark::DoNotOptimize(simulate(schedule, costs).makespan_ns);
  per_action(state, schedule.actions.size());
}

void read_csv_text(benchmark::State& state) {
  const Schedule schedule =
      one_f_one_b(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const std::string text = to_csv(schedule);
  for (auto _ : state) benchmark::DoNotOptimize(parse_csv(text, "bench.csv").microbatches);
  per_action(state, schedule.actions.size());
}

void check_deadlock(benchmark::State& state) {
  const Schedule program =
      lower(one_f_one_b(static_cast<int>(state.range(0)), static_cast<int>(state.range(1))));
  const SendMode mode = all_send_modes()[static_cast<std::size_t>(state.range(2))];
  for (auto _ : state) benchmark::DoNotOptimize(find_deadlock(program, mode).has_value());
  per_action(state, program.actions.size());
  state.SetLabel(std::string(send_mode_name(mode)));
}

// What a caller of the libraries does for one prediction.
void predict_whole(benchmark::State& state) {
  ScheduleRequest asked{"1f1b", static_cast<int>(state.range(0)), static_cast<int>(state.range(1))};
  std::int64_t actions = 0;
  for (auto _ : state) {
    PredictionRequest request;
    request.schedule = choose_schedule(asked);
    actions = request.schedule.schedule.actions.size();
    benchmark::DoNotOptimize(prepare(std::move(request)).predict().metrics.makespan_ns);
  }
  per_action(state, actions);
}

// Every family on the same model, without the report.
void compare_schedules(benchmark::State& state) {
  Sweep sweep;
  sweep.request.ranks = static_cast<int>(state.range(0));
  sweep.microbatches = {static_cast<int>(state.range(1))};
  Trial trial;
  CostsFile file;
  file.costs = costs_of(sweep.request.ranks);
  const Placement given = Placement::loop(sweep.request.ranks, 1);
  trial.costs = [&](const Schedule& schedule) {
    return recut(file, given, schedule.placement).resolve(schedule.placement, {});
  };
  std::int64_t actions = 0;
  for (const Proposal& one : proposals(sweep)) actions += make(one, trial).schedule.actions.size();
  for (auto _ : state) benchmark::DoNotOptimize(try_all(proposals(sweep), trial).data());
  per_action(state, actions);
}

BENCHMARK(generate_schedule)->Args({256, 4096})->Unit(benchmark::kMillisecond);
BENCHMARK(evaluate)
    ->Args({8, 64})
    ->Args({64, 1024})
    ->Args({256, 4096})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(evaluate_replicas)->ArgsProduct({{64}, {1024}, {1, 8}})->Unit(benchmark::kMillisecond);
BENCHMARK(compare_schedules)->Args({16, 128})->Unit(benchmark::kMillisecond);
BENCHMARK(predict_whole)->Args({8, 64})->Unit(benchmark::kMicrosecond);
BENCHMARK(read_csv_text)->Args({64, 7813})->Unit(benchmark::kMillisecond);
BENCHMARK(check_deadlock)->ArgsProduct({{64}, {2604}, {0, 1, 2, 3}})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim

BENCHMARK_MAIN();
