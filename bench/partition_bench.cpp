// Layers cut into stages: the least bottleneck.
#include <benchmark/benchmark.h>

#include <random>

#include "sim/partition/bottleneck.h"
#include "sim/schedule/family.h"

namespace pipesim {
namespace {

// Layers of 1 to 2 ms, and messages of up to 1 ms, which differ from each other.
BottleneckProblem problem_of(int layers, Placement placement) {
  std::mt19937_64 random(1);
  BottleneckProblem problem;
  problem.placement = std::move(placement);
  for (int l = 0; l < layers; ++l) {
    problem.layer_ns.push_back(1'000'000 + static_cast<std::int64_t>(random() % 1'000'000));
  }
  for (int b = 1; b < problem.placement.stages(); ++b) {
    auto& row = problem.transfer_ns.emplace_back();
    for (int l = 0; l < layers; ++l) row.push_back(static_cast<std::int64_t>(random() % 1'000'000));
  }
  return problem;
}

// With memory for a twentieth more than an even share.
void limit_memory(BottleneckProblem& problem, const char* family) {
  const int ranks = problem.placement.ranks();
  const Schedule schedule = generate({family, ranks, 4 * ranks, problem.placement.chunks()});
  problem.moments = fullest_moments(schedule);
  problem.state_bytes.assign(problem.layer_ns.size(), 1'000'000'000);
  problem.activation_bytes.assign(problem.layer_ns.size(), 10'000'000);
  const int layers = problem.layers();
  const int stages = problem.placement.stages();
  std::vector<int> layout;
  for (int s = 0; s < stages; ++s) {
    layout.push_back((s + 1) * layers / stages - s * layers / stages);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    problem.memory_caps.push_back(memory_of(problem, layout, rank) / 20 * 21);
  }
}

void find(benchmark::State& state, const BottleneckProblem& problem) {
  bool is_proven = false;
  for (auto _ : state) {
    const auto found = find_bottleneck(problem);
    is_proven = std::visit([](const auto& best) { return best.is_proven(); }, found);
  }
  state.SetLabel(is_proven ? "proven" : "not proven");
}

void one_stage_a_rank(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(1));
  BottleneckProblem problem =
      problem_of(static_cast<int>(state.range(0)), Placement::loop(ranks, 1));
  if (state.range(2) != 0) limit_memory(problem, "1f1b");
  find(state, problem);
}

void two_in_a_v(benchmark::State& state) {
  find(state, problem_of(static_cast<int>(state.range(0)),
                         Placement::v(static_cast<int>(state.range(1)), 2)));
}

void chunks_in_a_loop(benchmark::State& state) {
  const int chunks = static_cast<int>(state.range(2));
  find(state, problem_of(static_cast<int>(state.range(0)),
                         Placement::loop(static_cast<int>(state.range(1)), chunks)));
}

BENCHMARK(one_stage_a_rank)
    ->ArgNames({"layers", "ranks", "caps"})
    ->Args({1000, 64, 0})
    ->Args({1000, 64, 1})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(two_in_a_v)
    ->ArgNames({"layers", "ranks"})
    ->Args({64, 8})
    ->Args({200, 16})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(chunks_in_a_loop)
    ->ArgNames({"layers", "ranks", "chunks"})
    ->Args({64, 8, 2})
    ->Args({128, 16, 2})
    ->Args({96, 8, 4})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim

BENCHMARK_MAIN();
