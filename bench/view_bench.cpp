// The viewer with traces from files, with the waits of a user:
//
//   view_bench TRACE...
//
// Times from opening until the first picture, with rows and comparison, and what is resident then;
// processor time of the window's thread for a walk of pans and zooms at 1920 x 1080, laid out and
// painted, and for finding what is under the pointer, with the text of its card. Peak memory:
// process_cost.
#include <QApplication>
#include <QImage>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "bench/large_scene.h"
#include "gui/scene/document.h"
#include "gui/tables/tables.h"
#include "gui/window/letters.h"
#include "gui/window/painter.h"
#include "gui/window/session.h"
#include "traces/base/error.h"

namespace pipesim::gui {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Of this process, now.
double resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib / 1024;
  }
  return 0;
}

void print_quantiles(const char* what, std::vector<double> milliseconds) {
  std::ranges::sort(milliseconds);
  const auto at = [&](double share) {
    return milliseconds[static_cast<std::size_t>(share *
                                                 static_cast<double>(milliseconds.size() - 1))];
  };
  std::printf("  %-28s p50 %8.3f ms   p99 %8.3f ms   most %8.3f ms\n", what, at(0.5), at(0.99),
              at(1));
}

void measure_viewer(const std::vector<std::string>& paths) {
  constexpr int width = 1920;
  constexpr int height = 1080;
  Session session;
  session.set_canvas(canvas_of(width, height, 1));
  Painter painter(label_height(1));
  QImage image;

  const auto begin = std::chrono::steady_clock::now();
  session.open(opened(open_traces(paths), {}));
  const double opening = milliseconds_since(begin);
  painter.paint(session.picture().list, image);
  std::size_t spans = 0;
  for (const auto& trace : session.document().traces) {
    spans += trace->run ? trace->run->spans.size() : trace->events->slices.size();
  }
  std::printf("  %zu spans of %zu traces, %zu groups\n", spans, session.document().traces.size(),
              session.scene().groups.size());
  std::printf("  opened in %.0f ms, painted %.1f ms later\n", opening,
              milliseconds_since(begin) - opening);

  std::printf("  resident: %.1f MiB\n", resident_mib());

  std::vector<double> painting;
  for (const TimeRange& range : walk(session.scene().extent)) {
    View view = session.view();
    view.range = range;
    const double from = milliseconds_used();
    session.change(std::move(view));
    painter.paint(session.picture().list, image);
    painting.push_back(milliseconds_used() - from);
  }
  print_quantiles("panned or zoomed, painted", painting);

  std::mt19937 random(1);
  std::uniform_int_distribution<int> x(0, width - 1);
  std::uniform_int_distribution<int> y(0, height - 1);
  std::vector<double> hovering;
  for (int i = 0; i < 2000; ++i) {
    const double from = milliseconds_used();
    const auto found = hit(session.picture(), session.scene(), x(random), y(random));
    if (found && found->pick) detail_table(session.document(), session.scene(), *found->pick);
    hovering.push_back(milliseconds_used() - from);
  }
  print_quantiles("under the pointer, details", hovering);
}

}  // namespace
}  // namespace pipesim::gui

int main(int argc, char** argv) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  qputenv("QT_LOGGING_RULES", "*.warning=false");
  const QApplication application(argc, argv);
  pipesim::gui::load_fonts();
  if (argc < 2) {
    std::fprintf(stderr, "usage: view_bench TRACE...\n");
    return 2;
  }
  try {
    pipesim::gui::measure_viewer({argv + 1, argv + argc});
  } catch (const pipesim::Error& error) {
    std::fprintf(stderr, "view_bench: %s\n", error.what());
    return error.exit_status();
  }
  return 0;
}
