// The viewer's window, with the waits of a user: a walk of pans and zooms laid out and painted at
// 1920 x 1080, and the time from a file to the first picture.
#include <benchmark/benchmark.h>

#include <QApplication>
#include <QImage>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "bench/large_scene.h"
#include "gui/window/letters.h"
#include "gui/window/painter.h"
#include "gui/window/session.h"
#include "sim/engine/record_run.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "traces/base/files.h"
#include "traces/chrome_writer.h"

namespace pipesim::gui {
namespace {

constexpr int width = 1920;
constexpr int height = 1080;

void lay_out_and_paint(benchmark::State& state) {
  const Scene scene = scene_of(state.range(0));
  const Document document;
  const Palette colours = palette(Theme::light, Colouring::kind);
  const std::vector<TimeRange> ranges = walk(scene.extent);
  const Canvas canvas = canvas_of(width, height, 1);
  Painter painter(label_height(1));
  QImage image;
  std::vector<double> milliseconds;
  double painting = 0;
  View view;
  std::size_t next = 0;
  for (auto _ : state) {
    view.range = ranges[next++ % ranges.size()];
    const double begin = milliseconds_used();
    const Picture picture = layout(document, scene, view, canvas, colours);
    const double laid_out = milliseconds_used();
    painter.paint(picture.list, image);
    const double end = milliseconds_used();
    milliseconds.push_back(end - begin);
    painting += end - laid_out;
  }
  std::ranges::sort(milliseconds);
  const auto last = static_cast<double>(milliseconds.size() - 1);
  state.counters["p50_ms"] = milliseconds[static_cast<std::size_t>(last * 0.50)];
  state.counters["p99_ms"] = milliseconds[static_cast<std::size_t>(last * 0.99)];
  state.counters["paint_mean_ms"] = painting / static_cast<double>(milliseconds.size());
}

// The fullest possible picture: 64 strips, 700 labels, 250 arrows.
void paint_full_picture(benchmark::State& state) {
  DrawList list;
  list.width = width;
  list.height = height;
  list.background = 0xffffff;
  for (int row = 0; row < 64; ++row) {
    DrawList::Strip strip{0, row * 16, 15, {}, {}};
    for (int x = 0; x < width; ++x) {
      strip.columns.push_back(static_cast<Rgb>(x / 20 * 77'777 + row) & 0xffffffU);
    }
    list.strips.push_back(std::move(strip));
  }
  for (int i = 0; i < max_labels; ++i) {
    DrawList::Text text;
    text.x = i % 25 * 75;
    text.y = i / 25 * 32;
    text.width = 60;
    text.height = 15;
    text.text = std::to_string(i % 16) + "F" + std::to_string(i);
    list.texts.push_back(std::move(text));
  }
  for (int i = 0; i < max_arrows; ++i) {
    DrawList::Line line{i * 7, i % 60 * 16, i * 7 + 40, i % 60 * 16 + 60, 0x606060};
    line.arrow = true;
    list.lines.push_back(line);
  }
  Painter painter(label_height(1));
  QImage image;
  for (auto _ : state) painter.paint(list, image);
}

// The file of a trace with this many microbatches.
std::string written_trace(int microbatches) {
  const std::string path =
      (std::filesystem::temp_directory_path() / "pipesim_paint_bench.json").string();
  const Schedule schedule = generate(ScheduleRequest{"1f1b", 16, microbatches, {}, {}, {}});
  Costs costs;
  costs.stages.assign(16, StageCosts{});
  OutputFile file(path);
  write_chrome_trace(record_run(schedule, costs), file);
  file.commit();
  return path;
}

void open_and_paint_first(benchmark::State& state) {
  const std::string path = written_trace(static_cast<int>(state.range(0)));
  std::size_t spans = 0;
  double first_paint = 0;
  for (auto _ : state) {
    Session session;
    session.set_canvas(canvas_of(width, height, 1));
    session.open(opened(open_traces({path}), {}));
    const double begin = milliseconds_used();
    benchmark::DoNotOptimize(painted(session.picture().list, label_height(1)));
    first_paint = milliseconds_used() - begin;
    spans = session.document().traces.front()->run->spans.size();
  }
  state.counters["spans"] = static_cast<double>(spans);
  state.counters["spans_per_s"] =
      benchmark::Counter(static_cast<double>(spans), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["first_paint_ms"] = first_paint;
  std::filesystem::remove(path);
}

BENCHMARK(lay_out_and_paint)
    ->Arg(1'000'000)
    ->Arg(10'000'000)
    ->Iterations(288)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(paint_full_picture)->Unit(benchmark::kMillisecond);
BENCHMARK(open_and_paint_first)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Iterations(3)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipesim::gui

int main(int argc, char** argv) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  const QApplication application(argc, argv);
  pipesim::gui::load_fonts();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
