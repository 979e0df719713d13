// What the window looks like, against pictures that people have looked at. Letters and
// slanted lines may differ a little from one machine to the next.
//
// PIPESIM_UPDATE_GOLDEN=1 writes the pictures of tests/data/images anew.
#include <gtest/gtest.h>

#include <QAction>
#include <QDockWidget>
#include <QImage>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "gui/window/banner.h"
#include "gui/window/find_bar.h"
#include "gui/window/flame_panel.h"
#include "gui/window/playground_panel.h"
#include "tests/windows.h"

namespace pipesim::gui {
namespace {

using testing::middle_of;
using testing::pick_of;
using testing::shown_window;
using testing::TraceFiles;

constexpr double max_mean_difference = 0.6;  // of 255, over all channels and pixels
constexpr int clear_difference = 60;         // of a channel
constexpr double max_clearly_different = 0.003;

struct Difference {
  double mean = 0;
  double share_clear = 0;
  QImage picture;  // black where both are alike
};
Difference difference_of(const QImage& a, const QImage& b) {
  Difference result;
  result.picture = QImage(a.size(), QImage::Format_RGB32);
  std::int64_t sum = 0;
  std::int64_t clear = 0;
  for (int y = 0; y < a.height(); ++y) {
    for (int x = 0; x < a.width(); ++x) {
      const QRgb one = a.pixel(x, y);
      const QRgb other = b.pixel(x, y);
      const int red = std::abs(qRed(one) - qRed(other));
      const int green = std::abs(qGreen(one) - qGreen(other));
      const int blue = std::abs(qBlue(one) - qBlue(other));
      sum += red + green + blue;
      clear += std::max({red, green, blue}) > clear_difference;
      result.picture.setPixel(x, y, qRgb(red, green, blue));
    }
  }
  const double pixels = static_cast<double>(a.width()) * a.height();
  result.mean = static_cast<double>(sum) / 3 / pixels;
  result.share_clear = static_cast<double>(clear) / pixels;
  return result;
}

void expect_picture(MainWindow& window, const std::string& name) {
  window.settle();
  const QImage image = window.grab().toImage().convertToFormat(QImage::Format_RGB32);
  const QString golden =
      QString::fromStdString(pipesim::testing::source_file("tests/data/images/" + name + ".png"));
  if (std::getenv("PIPESIM_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(image.save(golden, "PNG", 0)) << golden.toStdString();
    return;
  }
  const QImage expected = QImage(golden).convertToFormat(QImage::Format_RGB32);
  ASSERT_EQ(image.size(), expected.size()) << golden.toStdString();
  const Difference difference = difference_of(image, expected);
  if (difference.mean <= max_mean_difference && difference.share_clear <= max_clearly_different) {
    return;
  }
  const std::filesystem::path folder = PIPESIM_IMAGES;
  std::filesystem::create_directories(folder);
  const QString seen = QString::fromStdString((folder / (name + ".png")).string());
  const QString apart = QString::fromStdString((folder / (name + ".difference.png")).string());
  image.save(seen);
  difference.picture.save(apart);
  ADD_FAILURE() << name << " looks different: " << difference.mean << " of 255 on average, "
                << difference.share_clear * 100 << " % of the pixels clearly; see "
                << seen.toStdString() << " and " << apart.toStdString();
}

WindowOptions with(const SceneOptions& scene, Theme theme = Theme::light) {
  WindowOptions options;
  options.theme = theme;
  options.scene = scene;
  return options;
}

constexpr QSize small{1024, 600};

TEST(WindowImages, ComparisonStacked) {
  const TraceFiles files;
  const auto window = shown_window(files.both(), {}, {1024, 700});
  expect_picture(*window, "stacked");
}

TEST(WindowImages, ComparisonStackedDark) {
  const TraceFiles files;
  WindowOptions options = with({}, Theme::dark);
  options.select = "2B3";
  options.scene.critical = true;
  const auto window = shown_window(files.both(), options, {1024, 700});
  expect_picture(*window, "dark_selected");
}

TEST(WindowImages, ComparisonOverlaidBySlot) {
  const TraceFiles files;
  const auto window = shown_window(
      files.both(), with({Alignment::slot, Show::overlay, Colouring::microbatch, false}), small);
  expect_picture(*window, "slots_overlaid");
}

TEST(WindowImages, ComparisonAsDifference) {
  const TraceFiles files;
  const auto window = shown_window(
      files.both(), with({Alignment::iteration, Show::difference, Colouring::error, false}), small);
  expect_picture(*window, "difference");
}

TEST(WindowImages, ZoomedInWithTransfersAreaAndMark) {
  const TraceFiles files;
  WindowOptions options = with({Alignment::iteration, Show::stacked, Colouring::kind, true});
  options.range = TimeRange{8'000'000, 16'000'000};
  options.capacity_bytes = std::int64_t{3} << 30;
  const auto window = shown_window(files.both(), options, small);
  View view = window->session().view();
  view.area = TimeRange{10'000'000, 13'000'000};
  view.marks = {14'000'000};
  window->session().change(view);
  auto* area = window->findChild<QDockWidget*>("area");
  area->raise();
  expect_picture(*window, "zoomed_in");
}

// One prediction with its critical path, an area with what is in it, and the card under the
// pointer.
TEST(WindowImages, OneRunWithAreaAndCard) {
  const TraceFiles files;
  WindowOptions options;
  options.scene.critical = true;
  const auto window = shown_window({QString::fromStdString(files.run())}, options, {1280, 800});
  View view = window->session().view();
  view.area = TimeRange{4'000'000, 22'000'000};
  window->session().change(view);
  window->findChild<QDockWidget*>("area")->raise();
  window->settle();
  const Pick pick = pick_of(window->session().document(), 0, "2B3");
  QTest::mouseMove(window->timeline().viewport(), middle_of(*window, pick));
  expect_picture(*window, "one_run");
}

TEST(WindowImages, ManyRanksZoomedOut) {
  const TraceFiles files(24);
  TraceFiles::write(files.plan(), 2'000'000, "predicted", 24, 96);
  TraceFiles::write(files.run(), 2'600'000, "measured", 24, 96);
  const auto window = shown_window(files.both(), {}, small);
  expect_picture(*window, "many_ranks");
}

TEST(WindowImages, EventsWithBanner) {
  const auto window = shown_window({QString::fromStdString(pipesim::testing::source_file(
                                       "tests/data/traces/hta_event_sync.json.gz"))},
                                   {}, small);
  // Where the file lies differs from one machine to the next.
  window->findChild<Banners*>()->clear();
  window->findChild<Banners*>()->add("Events of this trace belong to no action of a pipeline.");
  expect_picture(*window, "events");
}

FlamePanel& flame_panel(MainWindow& window) {
  auto* dock = window.findChild<QDockWidget*>("flame");
  dock->raise();
  window.settle();
  return *qobject_cast<FlamePanel*>(dock->widget());
}

TEST(WindowImages, FlameGraphOfAComparison) {
  const TraceFiles files;
  const auto window = shown_window(files.both(), {}, {1280, 800});
  flame_panel(*window).line().setText("idle");
  expect_picture(*window, "flame");
}

TEST(WindowImages, FlameGraphOfEventsDark) {
  WindowOptions options;
  options.theme = Theme::dark;
  const auto window = shown_window({QString::fromStdString(pipesim::testing::source_file(
                                       "tests/data/traces/hta_event_sync.json.gz"))},
                                   options, small);
  window->findChild<Banners*>()->clear();
  FlameBoxes& boxes = flame_panel(*window).boxes();
  for (std::uint32_t node = 1; node < boxes.graph()->nodes.size(); ++node) {
    if (boxes.graph()->frame(node).name == "aten::mm") boxes.zoom(node);
  }
  expect_picture(*window, "flame_events");
}

TEST(WindowImages, SearchFindsAll) {
  const TraceFiles files;
  const auto window = shown_window(files.both(), {}, small);
  auto* find_bar = window->findChild<FindBar*>();
  find_bar->open();
  find_bar->line().setText("mb 3");
  // The cursor blinks.
  window->timeline().setFocus();
  expect_picture(*window, "search");
}

TEST(WindowImages, Help) {
  const TraceFiles files;
  const auto window = shown_window(files.both(), {}, {1024, 700});
  QTest::keyClick(&window->timeline(), Qt::Key_Question);
  expect_picture(*window, "help");
}

TEST(WindowImages, PlaygroundStepByStep) {
  WindowOptions options;
  options.playground = true;
  options.theme = Theme::dark;
  const auto window = shown_window({}, options, {1024, 700});
  auto* panel = window->findChild<PlaygroundPanel*>();
  for (int i = 0; i < 4; ++i) panel->step_on();
  window->timeline().setFocus();
  expect_picture(*window, "playground");
}

TEST(WindowImages, DifferencesAreFound) {
  QImage one(100, 100, QImage::Format_RGB32);
  one.fill(Qt::white);
  QImage other = one;
  EXPECT_EQ(difference_of(one, other).mean, 0);
  for (int y = 40; y < 50; ++y) {
    for (int x = 40; x < 60; ++x) other.setPixel(x, y, qRgb(255, 0, 255));
  }
  EXPECT_NEAR(difference_of(one, other).mean, 255.0 / 3 * 0.02, 1e-9);
  EXPECT_NEAR(difference_of(one, other).share_clear, 0.02, 1e-9);
}

}  // namespace
}  // namespace pipesim::gui
