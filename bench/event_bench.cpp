// The parts of the event engine: its queue, its network, whole evaluations.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bench/problem.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "traces/event/event_queue.h"
#include "traces/event/flow_network.h"

namespace pipesim {
namespace {

// The hold model: for every event taken, a new one is pushed an exponentially distributed time
// later.
void hold(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> exponential(1e-6);  // a millisecond on average
  std::vector<std::int64_t> ahead(std::size_t{1} << 16);
  for (auto& ns : ahead) ns = static_cast<std::int64_t>(exponential(random));
  std::size_t next = 0;
  const auto draw = [&] { return ahead[next++ % ahead.size()]; };
  EventQueue<std::uint64_t> queue;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    queue.push(draw(), static_cast<std::uint64_t>(i));
  }
  std::vector<std::uint64_t> events;
  std::int64_t taken = 0;
  for (auto _ : state) {
    const std::int64_t now = queue.take_instant(events);
    for (const std::uint64_t event : events) queue.push(now + draw(), event);
    taken += static_cast<std::int64_t>(events.size());
  }
  state.SetItemsProcessed(taken);
}

// `range(0)` links with `range(1)` flows each; on one of them flows end and start again. The other
// links must cost nothing.
void change_one_link(benchmark::State& state) {
  FlowNetwork network;
  std::vector<RouteId> routes;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    routes.push_back(network.add_route({network.add_link(1'000'000'000)}));
  }
  constexpr std::int64_t forever = std::int64_t{1} << 50;
  for (const RouteId route : routes) {
    for (std::int64_t i = route == 0 ? 1 : 0; i < state.range(1); ++i) {
      network.start(0, route, forever, 0);
      network.alarms().clear();
    }
  }
  std::int64_t now = 0;
  std::vector<std::uint32_t> finished;
  std::int64_t changes = 0;
  for (auto _ : state) {
    network.alarms().clear();
    network.start(1, routes[0], 10, now);
    // The alarm of the small flow is the earliest of those just set.
    auto alarm = network.alarms().front();
    for (const auto& other : network.alarms()) {
      if (other.time_ns < alarm.time_ns) alarm = other;
    }
    now = alarm.time_ns;
    finished.clear();
    network.wake(alarm, finished);
    changes += 1 + static_cast<std::int64_t>(finished.size());
  }
  state.SetItemsProcessed(changes);
}

// 1F1B evaluated on the event engine in each mode, lowering included.
void evaluate_by_events(benchmark::State& state) {
  const int p = static_cast<int>(state.range(0));
  const Schedule schedule = bench::one_f_one_b(p, static_cast<int>(state.range(1)));
  const Costs costs = bench::costs_of(p);
  SimulationOptions options;
  options.always_by_events = true;
  options.transfers.mode = static_cast<P2p>(state.range(2));
  for (auto _ : state) {
    benchmark::DoNotOptimize(simulate(schedule, costs, options).makespan_ns);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * schedule.actions.size());
  state.SetLabel(std::string(p2p_name(options.transfers.mode)));
}

// GPipe through a slow link: all microbatches are in flight at once.
void share_one_link(benchmark::State& state) {
  const int m = static_cast<int>(state.range(0));
  const Schedule schedule = generate({"gpipe", 2, m});
  Costs costs = bench::costs_of(2);
  costs.stages[0].output_bytes = 100'000'000;
  costs.p2p.bytes_per_second = 1'000'000'000;
  for (auto _ : state) benchmark::DoNotOptimize(simulate(schedule, costs).makespan_ns);
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 2 * m);
}

void lower_schedule(benchmark::State& state) {
  const Schedule schedule =
      bench::one_f_one_b(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(lower(schedule).actions.size());
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * schedule.actions.size());
}

BENCHMARK(hold)->Arg(100)->Arg(10'000)->Arg(1'000'000);
BENCHMARK(change_one_link)->ArgsProduct({{1, 100, 10'000}, {2, 20, 200}});
BENCHMARK(evaluate_by_events)
    ->ArgsProduct({{64}, {1024}, {0, 1, 2, 3}})
    ->ArgsProduct({{256}, {4096}, {0, 1, 2, 3}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(share_one_link)->Arg(1'000)->Arg(16'000)->Unit(benchmark::kMillisecond);
BENCHMARK(lower_schedule)->Args({256, 4096})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim

BENCHMARK_MAIN();
