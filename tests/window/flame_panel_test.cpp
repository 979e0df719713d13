// The flame graph's tab as a person uses it: clicks, keys, search.
#include "gui/window/flame_panel.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QDockWidget>
#include <QScrollBar>

#include "tests/windows.h"

namespace pipesim::gui {
namespace {

using testing::shown_window;
using testing::TraceFiles;

class FlameTab : public ::testing::Test {
 protected:
  FlameTab() { raise(); }
  void raise() {
    window->findChild<QDockWidget*>("flame")->raise();
    window->settle();
  }

  FlamePanel& panel() { return *window->findChild<FlamePanel*>(); }
  FlameBoxes& boxes() { return panel().boxes(); }
  std::string zoomed() {
    const std::uint32_t node = boxes().zoomed();
    return node == FlameGraph::root ? "all" : boxes().graph()->frame(node).name;
  }
  // The first box in sight that is called so.
  QPoint middle_of(const std::string& name) {
    for (const FlamePicture::Box& box : boxes().picture().boxes) {
      const std::string& own =
          box.node == FlameGraph::root ? "all" : boxes().graph()->frame(box.node).name;
      if (own == name) return {box.x + box.width / 2, box.y + box.height / 2};
    }
    ADD_FAILURE() << "no " << name;
    return {};
  }
  void click(const std::string& name) {
    QTest::mouseClick(boxes().viewport(), Qt::LeftButton, {}, middle_of(name));
  }
  void point_at(const QPoint& at) {
    QMouseEvent event(QEvent::MouseMove, at, boxes().viewport()->mapToGlobal(at), Qt::NoButton,
                      Qt::NoButton, Qt::NoModifier);
    QApplication::sendEvent(boxes().viewport(), &event);
  }

  TraceFiles files;
  std::unique_ptr<MainWindow> window =
      shown_window({QString::fromStdString(files.plan())}, {}, {1024, 900});
};

// 4 ranks of 33.80 ms each.
TEST_F(FlameTab, HasTheTimeOfAllRanks) {
  ASSERT_NE(boxes().graph(), nullptr);
  EXPECT_EQ(boxes().graph()->nodes[FlameGraph::root].total_ns, 4 * 33'800'000);
  EXPECT_EQ(panel().pointed().toStdString(), "135.2 ms: all");
}

TEST_F(FlameTab, AClickZoomsInAndOnWhatIsAroundOut) {
  click("rank 1");
  EXPECT_EQ(zoomed(), "rank 1");
  EXPECT_EQ(panel().pointed().toStdString(),
            "33.80 ms, 25.0 % of all, 25.0 % of step 0: step 0 > rank 1");
  click("idle");
  EXPECT_EQ(zoomed(), "idle");
  click("rank 1");
  EXPECT_EQ(zoomed(), "rank 1");
  click("all");
  EXPECT_EQ(zoomed(), "all");
}

TEST_F(FlameTab, EscapeAndHomeZoomOut) {
  const View before = window->session().view();
  for (const Qt::Key key : {Qt::Key_Escape, Qt::Key_Home}) {
    click("rank 2");
    boxes().setFocus();
    QTest::keyClick(&boxes(), key);
    EXPECT_EQ(zoomed(), "all");
  }
  EXPECT_EQ(window->session().view(), before) << "the keys are the timeline's, too";
}

TEST_F(FlameTab, SaysWhatIsUnderThePointer) {
  point_at(middle_of("rank 3"));
  EXPECT_EQ(panel().pointed().toStdString(),
            "33.80 ms, 25.0 % of all, 25.0 % of step 0: step 0 > rank 3");
  point_at({5, boxes().viewport()->height() - 1});
  EXPECT_EQ(panel().pointed().toStdString(), "135.2 ms: all");
}

// 8 forwards of 1 ms on each of 4 ranks.
TEST_F(FlameTab, SearchSumsWhatItFinds) {
  QTest::keyClicks(&panel().line(), "rank 1");
  EXPECT_EQ(panel().found().toStdString(), "1 box, 25.0 % of all");
  QTest::keyClick(&panel().line(), Qt::Key_Escape);
  EXPECT_EQ(panel().line().text(), "");
  EXPECT_EQ(panel().found(), "");
  QTest::keyClick(&panel().line(), Qt::Key_Escape);
  EXPECT_TRUE(boxes().hasFocus());
  panel().line().setText("no such thing");
  EXPECT_EQ(panel().found().toStdString(), "nothing is called so");
}

TEST_F(FlameTab, FollowsWhatIsOpen) {
  click("rank 1");
  window->open({QString::fromStdString(
      pipesim::testing::source_file("tests/data/traces/hta_event_sync.json.gz"))});
  testing::wait_until_idle(*window);
  raise();
  EXPECT_EQ(zoomed(), "all");
  middle_of("aten::mm");
  // Few rows fit, and the others can be scrolled to.
  window->resize(1024, 480);
  window->settle();
  const int most = boxes().verticalScrollBar()->maximum();
  EXPECT_GT(most, 0);
  boxes().verticalScrollBar()->setValue(most);
  EXPECT_EQ(boxes().picture().boxes.back().y + boxes().picture().boxes.back().height,
            boxes().viewport()->height());
  window->close_trace(0);
  testing::wait_until_idle(*window);
  EXPECT_EQ(window->session().document().traces.size(), 0U);
}

// Those that another document outdates are unheard, and none outlives the window.
TEST_F(FlameTab, IsAddedUpInTheBackground) {
  for (int i = 0; i < 5; ++i) {
    window->open({QString::fromStdString(i % 2 == 0 ? files.run() : files.plan())});
    testing::wait_until_idle(*window);
  }
  window->findChild<QDockWidget*>("flame")->raise();
  window->settle();
  EXPECT_EQ(boxes().graph()->nodes[FlameGraph::root].total_ns, 4 * 37'600'000);
  window->open({QString::fromStdString(files.plan())});
  window.reset();
}

}  // namespace
}  // namespace pipesim::gui
