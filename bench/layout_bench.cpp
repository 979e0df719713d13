// Layout of large scenes at 1920 x 1080: a walk of pans and zooms, and what is at a
// point of the picture.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "gui/core/layout.h"

namespace pipesim::gui {
namespace {

constexpr int groups = 32;
const Canvas canvas{1920, 1080, 1, 7, 14};

// Two lanes a group with forwards, backwards and bubbles, of so many bars in all, a
// curve of memory each, and an arrow from every eighth bar to the next group.
Scene scene_of(std::int64_t bars) {
  std::mt19937_64 random(1);
  Scene scene;
  const std::int64_t each = bars / (2 * groups);
  for (int number = 0; number < groups; ++number) {
    Group group;
    group.name = "rank " + std::to_string(number);
    group.rank = number;
    for (int side = 0; side < 2; ++side) {
      Lane lane;
      lane.trace = side;
      lane.label = side == 0 ? "predicted" : "measured";
      lane.rows.resize(1);
      BarRow& row = lane.rows.front();
      row.reserve(static_cast<std::size_t>(each));
      CurveLane memory;
      memory.trace = side;
      memory.label = "memory";
      memory.bytes = true;
      std::int64_t now = number * 1'000;
      std::int64_t bytes = 0;
      for (std::int64_t i = 0; i < each; ++i) {
        const bool bubble = i % 4 == 3;
        const auto shade = static_cast<Shade>(bubble ? first_bubble_shade + i / 4 % 4 : i % 4);
        const std::int64_t end = now + 500 + static_cast<std::int64_t>(random() % 1'000);
        row.add({now, end, static_cast<Ref>(i), shade});
        if (!bubble) {
          bytes += i % 4 == 0 ? 3'000'000 : -1'400'000;
          memory.curve.add({end, bytes = std::max<std::int64_t>(bytes, 0)});
        }
        if (i % 8 == 0 && number + 1 < groups) {
          scene.arrows.push_back(
              {end, end + 700, number, number + 1, side, static_cast<Ref>(i), static_cast<Ref>(i)});
        }
        now = end;
      }
      row.finish();
      memory.curve.finish();
      scene.extent.to_ns = std::max(scene.extent.to_ns, now);
      group.lanes.push_back(std::move(lane));
      group.curves.push_back(std::move(memory));
    }
    scene.groups.push_back(std::move(group));
  }
  std::ranges::sort(scene.arrows, {}, &Arrow::from_ns);
  scene.longest_arrow_ns = 700;
  scene.home = scene.extent;
  return scene;
}

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

// From all that there is to a thousandth of it and back, panning at each step.
std::vector<TimeRange> walk(const TimeRange& extent) {
  std::vector<TimeRange> ranges;
  TimeRange range = extent;
  for (int i = 0; i < 48; ++i) {
    for (int pan = 0; pan < 3; ++pan) {
      ranges.push_back(range);
      range = kept_within(panned(range, range.length_ns() / 9), extent);
    }
    const std::int64_t about = range.from_ns + range.length_ns() / 3;
    range = kept_within(zoomed(range, about, i < 24 ? 0.75 : 1 / 0.75), extent);
  }
  return ranges;
}

// Of the processor by this thread: what else the machine does is no part of it.
double milliseconds_used() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
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
