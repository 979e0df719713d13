// Layout of large scenes at 1920 x 1080: a walk of pans and zooms, and what is at a
// point of the picture.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "bench/large_scene.h"
#include "gui/layout/layout.h"

namespace pipesim::gui {
namespace {

const Canvas canvas{1920, 1080, 1, 7, 14};

const Scene& scene_with(std::int64_t bars) {
  static std::int64_t made = 0;  // one at a time: they are large
  static std::unique_ptr<Scene> scene;
  if (made != bars) {
    scene.reset();
    scene = std::make_unique<Scene>(scene_of(bars));
    made = bars;
  }
  return *scene;
}

void walk_through(benchmark::State& state, bool curves) {
  const Scene& scene = scene_with(state.range(0));
  const Document document;
  const Palette colours = palette(Theme::light, Colouring::kind);
  const std::vector<TimeRange> ranges = walk(scene.extent);
  std::vector<double> milliseconds;
  View view;
  view.curves = curves;
  std::size_t next = 0;
  for (auto _ : state) {
    view.range = ranges[next++ % ranges.size()];
    const double begin = milliseconds_used();
    benchmark::DoNotOptimize(layout(document, scene, view, canvas, colours));
    milliseconds.push_back(milliseconds_used() - begin);
  }
  std::ranges::sort(milliseconds);
  const auto last = static_cast<double>(milliseconds.size() - 1);
  state.counters["p50_ms"] = milliseconds[static_cast<std::size_t>(last * 0.50)];
  state.counters["p99_ms"] = milliseconds[static_cast<std::size_t>(last * 0.99)];
  state.counters["most_ms"] = milliseconds.back();
}

void lay_out(benchmark::State& state) { walk_through(state, false); }
void lay_out_with_curves(benchmark::State& state) { walk_through(state, true); }

void overview(benchmark::State& state) {
  const Scene& scene = scene_with(state.range(0));
  const Document document;
  const Palette colours = palette(Theme::light, Colouring::kind);
  View view;
  view.range = scene.extent;
  for (auto _ : state) {
    benchmark::DoNotOptimize(layout_overview(document, scene, view, {1920, 64, 1, 7, 14}, colours));
  }
}

void hover(benchmark::State& state) {
  const Scene& scene = scene_with(state.range(0));
  View view;
  view.range = scene.extent;
  const Picture picture = layout({}, scene, view, canvas, palette(Theme::light, Colouring::kind));
  std::mt19937_64 random(2);
  for (auto _ : state) {
    const int x = static_cast<int>(random() % static_cast<unsigned>(canvas.width));
    const int y = static_cast<int>(random() % static_cast<unsigned>(canvas.height));
    benchmark::DoNotOptimize(hit(picture, scene, x, y));
  }
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Arg(1'000'000)->Arg(10'000'000)->Iterations(288)->Unit(benchmark::kMillisecond);
}

BENCHMARK(lay_out)->Apply(sizes);
BENCHMARK(lay_out_with_curves)->Apply(sizes);
BENCHMARK(overview)->Apply(sizes);
BENCHMARK(hover)->Arg(1'000'000)->Arg(10'000'000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pipesim::gui

BENCHMARK_MAIN();
