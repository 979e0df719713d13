// The time from a change in the playground until its run is computed, and until it is laid out at
// 1600x900: for 16 stages x 256 microbatches, and for the largest run allowed.
#include <benchmark/benchmark.h>

#include "gui/layout/layout.h"
#include "gui/playground/playground.h"
#include "gui/scene/scene.h"

namespace pipesim::gui {
namespace {

Settings settings_of(const benchmark::State& state) {
  Settings settings;
  settings.stages = static_cast<int>(state.range(0));
  settings.microbatches = static_cast<int>(state.range(1));
  settings.latency_ns = 45'000;
  settings.activation_bytes = std::int64_t{1} << 30;
  settings.memory_cap_bytes = std::int64_t{8} << 30;
  return settings;
}

void play_settings(benchmark::State& state) {
  const Settings settings = settings_of(state);
  for (auto _ : state) benchmark::DoNotOptimize(play(settings).trace);
}

void play_and_lay_out(benchmark::State& state) {
  const Settings settings = settings_of(state);
  const Palette colours = palette(Theme::light, Colouring::kind);
  const Canvas canvas{1600, 900};
  for (auto _ : state) {
    Document document;
    document.traces.push_back(play(settings).trace);
    const Scene scene = build_scene(document, {});
    View view;
    view.range = scene.home;
    benchmark::DoNotOptimize(layout(document, scene, view, canvas, colours).rows.data());
  }
}

void steps(benchmark::State& state) {
  const Outcome outcome = play(settings_of(state));
  for (auto _ : state) benchmark::DoNotOptimize(steps_of(*outcome.trace, 0, 1).size());
}

BENCHMARK(play_settings)->Args({16, 256})->Args({64, 4096})->Unit(benchmark::kMillisecond);
BENCHMARK(play_and_lay_out)->Args({16, 256})->Args({64, 4096})->Unit(benchmark::kMillisecond);
BENCHMARK(steps)->Args({16, 256})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim::gui

BENCHMARK_MAIN();
