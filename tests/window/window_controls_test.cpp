// What means nothing for what is open can't be used, and says why; tables and histograms beside
// them.
#include <gtest/gtest.h>

#include <QAction>
#include <QDockWidget>
#include <QHeaderView>
#include <QMenu>
#include <QPixmap>
#include <algorithm>
#include <set>

#include "gui/window/actions.h"
#include "gui/window/histogram_view.h"
#include "gui/window/hover_card.h"
#include "gui/window/summary.h"
#include "tests/files.h"
#include "tests/windows.h"

namespace pipesim::gui {
namespace {

using testing::pick_of;
using testing::shown_window;
using testing::TraceFiles;
using testing::wait_until_idle;

const QString events_file = QString::fromStdString(
    pipesim::testing::source_file("tests/data/traces/hta_event_sync.json.gz"));

QAction& command_of(MainWindow& window, Command command) {
  return *window.findChild<QAction*>(QString("command%1").arg(static_cast<int>(command)));
}

std::set<Command> disabled_in(MainWindow& window) {
  std::set<Command> disabled;
  for (const CommandHelp& help : command_list()) {
    const QAction& action = command_of(window, help.command);
    EXPECT_FALSE(action.toolTip().isEmpty());
    const bool names_keys = action.toolTip().endsWith("(" + readable_keys(help.keys) + ")");
    EXPECT_EQ(names_keys, action.isEnabled())
        << action.text().toStdString() << ": " << action.toolTip().toStdString();
    if (!action.isEnabled()) disabled.insert(help.command);
  }
  return disabled;
}

QAction& entry_called(MainWindow& window, const QString& text) {
  for (QMenu* menu : window.findChildren<QMenu*>()) {
    for (QAction* action : menu->actions()) {
      if (QString(action->text()).remove('&') == text) return *action;
    }
  }
  ADD_FAILURE() << "no entry is called " << text.toStdString();
  return *window.findChild<QAction*>();
}

TablePanel& panel_of(MainWindow& window, const char* id) {
  auto* dock = window.findChild<QDockWidget*>(id);
  dock->show();
  dock->raise();
  window.settle();
  return *qobject_cast<TablePanel*>(dock->widget());
}

const std::set<Command> of_a_pair{Command::show_overlay, Command::show_difference,
                                  Command::colour_error};

TEST(Controls, MeanWhatIsOpen) {
  const TraceFiles files;
  const auto window = shown_window();
  EXPECT_GT(disabled_in(*window).size(), 25U) << "nothing is open";
  EXPECT_FALSE(entry_called(*window, "Search...").isEnabled());
  EXPECT_EQ(entry_called(*window, "Search...").toolTip(), "Nothing is open yet.");

  const auto open = [&](const QStringList& paths) {
    window->open(paths);
    wait_until_idle(*window);
  };
  const std::set<Command> of_what_is_picked{
      Command::undo,       Command::redo,        Command::flow_back,   Command::flow_forward,
      Command::other_side, Command::select_area, Command::clear_marks, Command::pin};
  open(files.both());
  EXPECT_EQ(disabled_in(*window), of_what_is_picked);
  EXPECT_TRUE(entry_called(*window, "Search...").isEnabled());
  EXPECT_TRUE(entry_called(*window, "First Trace").isEnabled());
  EXPECT_TRUE(entry_called(*window, "Swap Traces").isEnabled());
  EXPECT_FALSE(window->findChild<QDockWidget*>("kinds")->isHidden());
  EXPECT_TRUE(window->findChild<QDockWidget*>("names")->isHidden());

  open({files.both().front()});
  std::set<Command> alone = of_what_is_picked;
  alone.insert(of_a_pair.begin(), of_a_pair.end());
  EXPECT_EQ(disabled_in(*window), alone);
  EXPECT_TRUE(command_of(*window, Command::show_difference).toolTip().contains("two runs"));
  EXPECT_FALSE(entry_called(*window, "First Trace").isEnabled());
  EXPECT_TRUE(entry_called(*window, "First Trace").toolTip().contains("two runs"));
  EXPECT_FALSE(entry_called(*window, "Swap Traces").isEnabled());
  EXPECT_TRUE(window->findChild<QDockWidget*>("kinds")->isHidden());
  EXPECT_FALSE(window->findChild<QDockWidget*>("bubbles")->isHidden());

  open({events_file});
  const std::set<Command> now = disabled_in(*window);
  for (const Command command :
       {Command::align_slot, Command::colour_microbatch, Command::toggle_critical,
        Command::toggle_transfers, Command::show_overlay}) {
    EXPECT_TRUE(now.contains(command)) << static_cast<int>(command);
  }
  EXPECT_TRUE(window->findChild<QDockWidget*>("bubbles")->isHidden());
  EXPECT_FALSE(window->findChild<QDockWidget*>("names")->isHidden());

  // And back: as it was.
  open(files.both());
  EXPECT_EQ(disabled_in(*window), of_what_is_picked);
  EXPECT_FALSE(window->findChild<QDockWidget*>("kinds")->isHidden());
}

TEST(Controls, MeanWhatIsSelected) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  Session& session = window->session();
  session.pick(pick_of(session.document(), 1, "2B3"));
  session.run(Command::mark);
  EXPECT_EQ(disabled_in(*window), std::set<Command>{Command::redo});
  session.run(Command::undo);
  EXPECT_FALSE(disabled_in(*window).contains(Command::redo));
}

// A key of a command that means nothing changes nothing.
TEST(Controls, ObjectionsAreWhereCommandsChangeNothing) {
  const TraceFiles files;
  const auto window = shown_window({files.both().front()});
  const View before = window->session().view();
  for (const Command command : disabled_in(*window)) {
    window->session().run(command);
    EXPECT_EQ(window->session().view(), before) << static_cast<int>(command);
  }
}

TEST(Panels, DetailsHaveNoNeedToBeScrolled) {
  const TraceFiles files;
  const auto window = shown_window(files.both(), {}, {1024, 768});
  Session& session = window->session();
  session.pick(pick_of(session.document(), 1, "2B3"));
  TablePanel& details = panel_of(*window, "details");
  const QTableView& view = details.view();
  EXPECT_LE(view.verticalHeader()->length(), view.viewport()->height());
  int width = 0;
  for (int i = 0; i < details.model().columnCount(); ++i) width += view.columnWidth(i);
  EXPECT_LE(width, view.viewport()->width());
  // Nothing is lost by it.
  EXPECT_EQ(to_csv(details.table()),
            to_csv(detail_table(session.document(), session.scene(), *session.view().picked)));
}

TEST(Panels, TablesOfTheSummaryAreSavedWhole) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  window->write_table_called("Causes", files / "causes.csv");
  EXPECT_EQ(read_file(files / "causes.csv"), to_csv(cause_table(window->session().document())));
  window->write_table_called("Where the difference comes from", files / "gap.csv");
  EXPECT_NE(read_file(files / "gap.csv").find("compute"), std::string::npos);
  EXPECT_EQ(window->findChild<QDockWidget*>("gap"), nullptr) << "the summary has it";
  EXPECT_EQ(window->findChild<QDockWidget*>("causes"), nullptr);
}

TEST(Panels, ASelectedAreaHasItsHistogram) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  Session& session = window->session();
  TablePanel& area = panel_of(*window, "area");
  EXPECT_FALSE(area.histogram()->isVisible());
  View view = session.view();
  view.area = TimeRange{0, 20'000'000};
  session.change(view);
  window->settle();
  HistogramView& bars = *area.histogram();
  ASSERT_TRUE(bars.isVisible());
  EXPECT_EQ(bars.histogram().count(),
            area_histogram(session.document(), session.scene(), session.view()).count());
  // A click on a bar emphasises what it counts.
  for (std::size_t bin = 0; bin < bars.histogram().bins(); ++bin) {
    const auto& about = bars.histogram().runs[1].bins[bin].about;
    if (about.empty()) continue;
    const std::vector<Pick> expected = about;
    QTest::mouseClick(&bars, Qt::LeftButton, {}, bars.place_of(1, bin).center());
    EXPECT_EQ(session.view().emphasised, expected);
    return;
  }
  ADD_FAILURE() << "all bins are empty";
}

TEST(Panels, ARowOfAKindHasItsHistogram) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  TablePanel& kinds = panel_of(*window, "kinds");
  EXPECT_FALSE(kinds.histogram()->isVisible());
  QTest::mouseClick(kinds.view().viewport(), Qt::LeftButton, {},
                    kinds.view().visualRect(kinds.model().index(0, 0)).center());
  ASSERT_TRUE(kinds.histogram()->isVisible());
  EXPECT_EQ(kinds.histogram()->histogram().count(), 16) << "8 microbatches of two runs";
}

TEST(Panels, AreasHaveSwatchesOfTheirKinds) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  Session& session = window->session();
  session.run(Command::colour_microbatch);
  View view = session.view();
  view.area = TimeRange{0, 20'000'000};
  session.change(view);
  const TableModel& model = panel_of(*window, "area").model();
  const auto swatch = qvariant_cast<QPixmap>(model.data(model.index(0, 0), Qt::DecorationRole));
  EXPECT_EQ(swatch.toImage().pixelColor(2, 2),
            QColor::fromRgb(palette(Theme::light, Colouring::kind).shades[0]));
}

// As wide as what it says, where there is room.
TEST(Hover, TheCardIsAsWideAsItsTexts) {
  const TraceFiles files;
  const auto window = shown_window(files.both(), {}, {1400, 900});
  Session& session = window->session();
  QWidget* ground = window->timeline().viewport();
  const QFontMetrics metrics(letters(label_pixels));
  for (const char* action : {"0F0", "2B3", "3B7"}) {
    QTest::mouseMove(ground, QPoint(4, ground->height() - 30));
    QTest::mouseMove(ground, testing::middle_of(*window, pick_of(session.document(), 1, action)));
    const HoverCard& card = window->timeline().card();
    ASSERT_TRUE(card.isVisible());
    int widest = 0;
    std::vector<int> columns;
    for (const QString& line : card.text().split('\n')) {
      const QStringList cells = line.split('\t');
      if (cells.size() == 1) {
        widest = std::max(widest, metrics.horizontalAdvance(line));
        continue;
      }
      columns.resize(std::max(columns.size(), static_cast<std::size_t>(cells.size())));
      for (int i = 0; i < cells.size(); ++i) {
        int& own = columns[static_cast<std::size_t>(i)];
        own = std::max(own, metrics.horizontalAdvance(cells[i]));
      }
    }
    int across = 0;
    for (const int column : columns) across += column;
    const int least = std::max(across, widest);
    EXPECT_GE(card.width(), least);
    EXPECT_LE(card.width(), least + 80) << "margins, and gaps between columns";
  }
}

}  // namespace
}  // namespace pipesim::gui
