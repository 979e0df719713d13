// The mouse on timeline and overview.
#include <gtest/gtest.h>

#include <QApplication>
#include <QDockWidget>
#include <QScrollBar>
#include <QWheelEvent>
#include <cmath>

#include "gui/window/hover_card.h"
#include "gui/window/overview.h"
#include "tests/windows.h"

namespace pipesim::gui {
namespace {

using testing::middle_of;
using testing::pick_of;
using testing::shown_window;
using testing::TraceFiles;

class WindowMouse : public ::testing::Test {
 protected:
  explicit WindowMouse(int ranks = 4) : files(ranks) {}

  QWidget* ground() { return window->timeline().viewport(); }
  Session& session() { return window->session(); }
  Pick bar(const std::string& action, int trace = 0) {
    return pick_of(session().document(), trace, action);
  }
  std::int64_t time_at(const QPoint& point) {
    const Viewport& axis = session().picture().viewport;
    return axis.time_of(point.x());
  }

  void wheel(const QPoint& at, QPoint turned, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
    QWheelEvent event(at, ground()->mapToGlobal(at), {}, turned, Qt::NoButton, modifiers,
                      Qt::NoScrollPhase, false);
    QApplication::sendEvent(ground(), &event);
  }
  // The mouse held and moved in small steps, as a hand does.
  void drag(QWidget* at, const QPoint& from, const QPoint& to,
            Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
    QTest::mousePress(at, Qt::LeftButton, modifiers, from);
    constexpr int steps = 8;
    for (int i = 1; i <= steps; ++i) {
      const QPoint now = from + (to - from) * i / steps;
      QMouseEvent event(QEvent::MouseMove, now, at->mapToGlobal(now), Qt::NoButton, Qt::LeftButton,
                        modifiers);
      QApplication::sendEvent(at, &event);
    }
    QTest::mouseRelease(at, Qt::LeftButton, modifiers, to);
  }

  TraceFiles files;
  std::unique_ptr<MainWindow> window = shown_window(files.both(), {}, {1024, 620});
};

// More than fit.
class WindowMouseManyRanks : public WindowMouse {
 protected:
  WindowMouseManyRanks() : WindowMouse(16) {}
};

TEST_F(WindowMouse, CtrlWheelZoomsAtThePointer) {
  const QPoint at = middle_of(*window, bar("1B3"));
  const std::int64_t time = time_at(at);
  const View before = session().view();
  wheel(at, {0, 120}, Qt::ControlModifier);
  const View after = session().view();
  EXPECT_NEAR(static_cast<double>(after.range.length_ns()),
              static_cast<double>(before.range.length_ns()) / 1.25, 2);
  EXPECT_LE(std::abs(session().picture().viewport.x_of(time) - at.x()), 1);
  wheel(at, {0, -120}, Qt::ControlModifier);
  EXPECT_NEAR(static_cast<double>(session().view().range.length_ns()),
              static_cast<double>(before.range.length_ns()), 4);
}

TEST_F(WindowMouseManyRanks, WheelScrollsAndShiftWheelPans) {
  ASSERT_GT(session().greatest_scroll(), 0);
  const QPoint at = middle_of(*window, bar("1B3"));
  wheel(at, {0, -120});
  EXPECT_GT(session().view().scroll, 0);
  EXPECT_EQ(window->timeline().verticalScrollBar()->value(), session().view().scroll);
  for (int i = 0; i < 100; ++i) wheel(at, {0, -120});
  EXPECT_EQ(session().view().scroll, session().greatest_scroll());
  for (int i = 0; i < 100; ++i) wheel(at, {0, 120});
  EXPECT_EQ(session().view().scroll, 0);

  wheel(at, {0, 480}, Qt::ControlModifier);
  const TimeRange zoomed_in = session().view().range;
  wheel(at, {0, -120}, Qt::ShiftModifier);
  EXPECT_GT(session().view().range.from_ns, zoomed_in.from_ns);
  EXPECT_EQ(session().view().range.length_ns(), zoomed_in.length_ns());
  wheel(at, {120, 0});
  EXPECT_EQ(session().view().range, zoomed_in);
}

TEST_F(WindowMouseManyRanks, TheScrollBarScrolls) {
  QScrollBar* bar_of = window->timeline().verticalScrollBar();
  ASSERT_GT(bar_of->maximum(), 0);
  bar_of->setValue(bar_of->maximum());
  EXPECT_EQ(session().view().scroll, session().greatest_scroll());
}

TEST_F(WindowMouse, DragPansByAsMuchAsThePointerMoves) {
  const QPoint at = middle_of(*window, bar("1B3"));
  wheel(at, {0, 600}, Qt::ControlModifier);
  const View before = session().view();
  const std::int64_t time = time_at(at);
  drag(ground(), at, at + QPoint(-60, 0));
  EXPECT_NE(session().view().range, before.range);
  EXPECT_LE(std::abs(session().picture().viewport.x_of(time) - (at.x() - 60)), 1);
  EXPECT_FALSE(session().view().picked.has_value());
  session().run(Command::undo);  // all of it is one step
  EXPECT_EQ(session().view().range, before.range);
}

TEST_F(WindowMouse, ClickPicksAndShowsDetails) {
  const Pick wanted = bar("2B3", 1);
  QTest::mouseClick(ground(), Qt::LeftButton, {}, middle_of(*window, wanted));
  EXPECT_EQ(session().view().picked, wanted);
  window->settle();
  ASSERT_NE(window->table_in_front(), nullptr);
  EXPECT_EQ(window->table_in_front(), window->findChild<QDockWidget*>("details")->widget());
  EXPECT_GT(window->table_in_front()->model().rowCount(), 0);
  QTest::mouseClick(ground(), Qt::LeftButton, {}, QPoint(4, ground()->height() - 40));
  EXPECT_FALSE(session().view().picked.has_value());
}

TEST_F(WindowMouse, DoubleClickShowsTheBarLarge) {
  const Pick wanted = bar("2B3", 1);
  const QPoint at = middle_of(*window, wanted);
  const std::int64_t before = session().view().range.length_ns();
  QTest::mouseDClick(ground(), Qt::LeftButton, {}, at);
  EXPECT_EQ(session().view().picked, wanted);
  const auto place = find(session().scene(), session().document(), wanted);
  ASSERT_TRUE(place.has_value());
  const TimeRange range = session().view().range;
  EXPECT_LT(range.length_ns(), before / 2);
  EXPECT_LE(range.from_ns, place->range.from_ns);
  EXPECT_GE(range.to_ns, place->range.to_ns);
}

TEST_F(WindowMouse, ShiftDragAndTheRulerSelectAnArea) {
  const QPoint from = middle_of(*window, bar("2B1"));
  const QPoint to = from + QPoint(150, 20);
  const View before = session().view();
  const auto expect_area = [&](const QPoint& one, const QPoint& other) {
    ASSERT_TRUE(session().view().area.has_value());
    const std::int64_t pixel =
        static_cast<std::int64_t>(session().picture().viewport.ns_per_pixel()) + 1;
    EXPECT_LE(std::abs(session().view().area->from_ns - time_at(one)), pixel);
    EXPECT_LE(std::abs(session().view().area->to_ns - time_at(other)), pixel);
  };
  drag(ground(), from, to, Qt::ShiftModifier);
  expect_area(from, to);
  EXPECT_EQ(session().view().range, before.range);
  window->settle();
  EXPECT_EQ(window->table_in_front(), window->findChild<QDockWidget*>("area")->widget());
  EXPECT_GT(window->table_in_front()->model().rowCount(), 0);

  // From right to left, in the ruler.
  drag(ground(), {to.x() + 30, 5}, {from.x() - 30, 5});
  expect_area(from - QPoint(30, 0), to + QPoint(30, 0));
  QTest::mouseClick(ground(), Qt::LeftButton, {}, QPoint(from.x(), 5));
  EXPECT_FALSE(session().view().area.has_value());
}

TEST_F(WindowMouse, HoverShowsACardWithBothSides) {
  const HoverCard& card = window->timeline().card();
  const QPoint at = middle_of(*window, bar("2B3", 1));
  QTest::mouseMove(ground(), at);
  ASSERT_TRUE(card.isVisible());
  EXPECT_TRUE(card.text().contains("B3")) << card.text().toStdString();
  EXPECT_TRUE(card.text().contains("2.60 ms")) << card.text().toStdString();
  EXPECT_TRUE(card.text().contains("2.00 ms")) << card.text().toStdString();
  EXPECT_TRUE(ground()->rect().contains(card.geometry()));
  // Wherever it is, it stays within.
  QTest::mouseMove(ground(), middle_of(*window, bar("0B7", 1)));
  EXPECT_TRUE(ground()->rect().contains(card.geometry()));
  QTest::mouseMove(ground(), QPoint(4, ground()->height() - 30));
  EXPECT_FALSE(card.isVisible());
}

TEST_F(WindowMouse, TheCardIsOfWhatIsOpenNow) {
  const HoverCard& card = window->timeline().card();
  const QPoint at = middle_of(*window, bar("2B3", 1));
  QTest::mouseMove(ground(), at);
  const QString before = card.text();
  TraceFiles::write(files.run(), 3'000'000, "measured");
  window->open(files.both());
  testing::wait_until_idle(*window);
  QTest::mouseMove(ground(), QPoint(4, ground()->height() - 30));
  QTest::mouseMove(ground(), middle_of(*window, bar("2B3", 1)));
  EXPECT_NE(card.text(), before);
  EXPECT_TRUE(card.text().contains("3.00 ms")) << card.text().toStdString();
}

TEST_F(WindowMouse, TheOverviewJumpsAndDrags) {
  auto* overview = window->findChild<Overview*>();
  session().run(Command::fit);
  session().run(Command::fit);
  View view = session().view();
  const TimeRange extent = session().scene().extent;
  view.range = {extent.from_ns, extent.from_ns + extent.length_ns() / 4};
  session().change(view);
  const int width = overview->width();
  QTest::mouseClick(overview, Qt::LeftButton, {}, QPoint(width * 3 / 4, 10));
  const TimeRange jumped = session().view().range;
  EXPECT_EQ(jumped.length_ns(), view.range.length_ns());
  const std::int64_t pixel = extent.length_ns() / width + 2;
  EXPECT_NEAR(static_cast<double>(jumped.from_ns + jumped.length_ns() / 2),
              static_cast<double>(extent.from_ns + extent.length_ns() * 3 / 4),
              static_cast<double>(2 * pixel));
  drag(overview, {width * 3 / 4, 10}, {width * 3 / 4 - width / 4, 10});
  EXPECT_NEAR(static_cast<double>(session().view().range.from_ns),
              static_cast<double>(jumped.from_ns - extent.length_ns() / 4),
              static_cast<double>(2 * pixel));
}

}  // namespace
}  // namespace pipesim::gui
