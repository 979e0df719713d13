// The window around the timeline: opening, giving up, dropping, saving, tables, looks.
#include <gtest/gtest.h>

#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QDropEvent>
#include <QHeaderView>
#include <QLabel>
#include <QMenu>
#include <QMimeData>
#include <QSettings>
#include <QTabBar>
#include <QTableView>
#include <QToolButton>
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <stdexcept>

#include "gui/window/actions.h"
#include "gui/window/banner.h"
#include "gui/window/overview.h"
#include "gui/window/painter.h"
#include "gui/window/playground_panel.h"
#include "gui/window/summary.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/input_runs.h"
#include "tests/windows.h"
#include "traces/input_trace.h"

namespace pipesim::gui {
namespace {

using testing::pick_of;
using testing::shown_window;
using testing::TraceFiles;
using testing::wait_until_idle;

QStringList banners(MainWindow& window) { return window.findChild<Banners*>()->sentences(); }

TablePanel& table(MainWindow& window, const char* panel) {
  auto* dock = window.findChild<QDockWidget*>(panel);
  dock->show();
  dock->raise();
  window.settle();
  return *qobject_cast<TablePanel*>(dock->widget());
}

QAction& action_called(MainWindow& window, const QString& text) {
  for (QAction* action : window.findChildren<QAction*>()) {
    if (QString(action->text()).remove('&') == text) return *action;
  }
  ADD_FAILURE() << "no action is called " << text.toStdString();
  return *window.findChild<QAction*>();
}

TEST(Window, IsThereBeforeAnythingIsRead) {
  const TraceFiles files;
  const auto window = shown_window();
  EXPECT_TRUE(window->isVisible());
  EXPECT_TRUE(window->session().document().traces.empty());
  QSignalSpy loaded(window.get(), &MainWindow::loaded);
  window->open(files.both());
  EXPECT_TRUE(window->is_loading());
  EXPECT_TRUE(window->findChild<QWidget*>("cancel")->isVisible());
  ASSERT_TRUE(loaded.wait(testing::patience_ms));
  EXPECT_FALSE(window->is_loading());
  EXPECT_FALSE(window->findChild<QWidget*>("cancel")->isVisible());
  ASSERT_TRUE(window->session().document().pair != nullptr);
  EXPECT_EQ(window->session().view().range, window->session().scene().home);
  EXPECT_TRUE(window->windowTitle().contains("plan"));
  EXPECT_TRUE(banners(*window).isEmpty());
}

TEST(Window, SaysTheVerdictAndTheSlowStage) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  const QString words = window->findChild<Summary*>()->verdict();
  EXPECT_EQ(words.toStdString(), verdict(window->session().document()));
  EXPECT_TRUE(words.contains("2B on rank 2")) << words.toStdString();
}

TEST(Loader, GivesUpWhenToldTo) {
  Loader loader;
  QSignalSpy cancelled(&loader, &Loader::cancelled);
  QSignalSpy finished(&loader, &Loader::finished);
  QSignalSpy progressed(&loader, &Loader::progressed);
  loader.start(
      [](const Report& report) -> Document {
        // Reads on until it is told not to.
        for (double fraction = 0; report(fraction, "reading"); fraction += 1e-9) {
        }
        throw Cancelled{};
      },
      {});
  ASSERT_TRUE(progressed.wait(testing::patience_ms));
  EXPECT_EQ(progressed.front()[1].toString(), "reading");
  EXPECT_TRUE(loader.busy());
  loader.cancel();
  ASSERT_TRUE(cancelled.count() > 0 || cancelled.wait(testing::patience_ms));
  EXPECT_FALSE(loader.busy());
  EXPECT_EQ(finished.count(), 0);
}

TEST(Loader, TheLastJobCounts) {
  Loader loader;
  QSignalSpy finished(&loader, &Loader::finished);
  QSignalSpy cancelled(&loader, &Loader::cancelled);
  const auto endless = [](const Report& report) -> Document {
    while (report(0, "")) {
    }
    throw Cancelled{};
  };
  loader.start(endless, {});
  loader.start([](const Report&) { return Document{}; }, {});
  ASSERT_TRUE(finished.wait(testing::patience_ms));
  EXPECT_EQ(finished.count(), 1);
  EXPECT_EQ(cancelled.count(), 0);
  loader.start(endless, {});  // and whoever goes away waits for nothing
}

TEST(Loader, ErrorsBecomeSentences) {
  Loader loader;
  QSignalSpy failed(&loader, &Loader::failed);
  loader.start([](const Report&) -> Document { throw input_error("x.json: is no trace"); }, {});
  ASSERT_TRUE(failed.wait(testing::patience_ms));
  EXPECT_EQ(failed.front()[0].toString(), "x.json: is no trace");
}

TEST(Loader, OtherExceptionsBecomeSentences) {
  Loader loader;
  QSignalSpy failed(&loader, &Loader::failed);
  loader.start([](const Report&) -> Document { throw std::length_error("vector::reserve"); }, {});
  ASSERT_TRUE(failed.wait(testing::patience_ms));
  EXPECT_TRUE(failed.front()[0].toString().contains("vector::reserve"));
  EXPECT_FALSE(loader.busy());
}

TEST(Loader, NothingIsShownOnceItIsGivenUp) {
  std::mutex held;
  std::atomic<int> ran = 0;
  Loader loader;
  QSignalSpy finished(&loader, &Loader::finished);
  QSignalSpy failed(&loader, &Loader::failed);
  QSignalSpy cancelled(&loader, &Loader::cancelled);
  // Never asks whether it was given up.
  const auto deaf = [&](const Report&) {
    const std::scoped_lock lock(held);
    ++ran;
    return Document{};
  };
  {
    const std::scoped_lock lock(held);
    loader.start(deaf, {});
    loader.cancel();  // at once, although it can't end yet
    EXPECT_EQ(cancelled.count(), 1);
    EXPECT_FALSE(loader.busy());
    loader.start(deaf, {});
    loader.start([](const Report&) { return Document{}; }, {});
    ASSERT_TRUE(finished.wait(testing::patience_ms));
  }
  while (ran < 2) QTest::qWait(1);
  QApplication::processEvents();
  EXPECT_EQ(finished.count(), 1);
  EXPECT_EQ(failed.count(), 0);
  EXPECT_EQ(cancelled.count(), 1);
}

TEST(Window, CancelKeepsWhatIsShown) {
  const TraceFiles files;
  TraceFiles::write(files / "large.json", 2'000'000, "predicted", 16, 4000);
  const auto window = shown_window(files.both());
  const auto before = window->session().shared_document();
  QSignalSpy idle(window.get(), &MainWindow::idle);
  window->open({QString::fromStdString(files / "large.json")});
  QTest::mouseClick(window->findChild<QWidget*>("cancel"), Qt::LeftButton);
  EXPECT_EQ(idle.count(), 1);
  EXPECT_EQ(window->session().shared_document(), before);
}

TEST(Window, BrokenFilesGiveABannerThatCanBeClosed) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  const auto before = window->session().shared_document();
  QSignalSpy problem(window.get(), &MainWindow::problem);
  write_file(files / "broken.json", "{\"traceEvents\": 17");
  for (const std::string& path : {files / "missing.json", files / "broken.json"}) {
    window->open({QString::fromStdString(path)});
    wait_until_idle(*window);
    ASSERT_FALSE(banners(*window).isEmpty());
    EXPECT_TRUE(banners(*window).back().contains(QString::fromStdString(path)));
    EXPECT_EQ(window->session().shared_document(), before);
  }
  EXPECT_EQ(problem.count(), 2);
  auto* all = window->findChild<Banners*>();
  while (!banners(*window).isEmpty()) {
    const int bars = banners(*window).size();
    QTest::mouseClick(all->findChild<QToolButton*>(), Qt::LeftButton);
    QApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    ASSERT_EQ(banners(*window).size(), bars - 1);
  }
  EXPECT_FALSE(all->isVisible());
}

TEST(Window, OneBadFileOfSeveralDoesNotHideTheOthers) {
  const TraceFiles files;
  const auto window =
      shown_window(files.both() + QStringList{QString::fromStdString(files / "missing.json")});
  EXPECT_EQ(window->session().document().traces.size(), 2U);
  ASSERT_EQ(banners(*window).size(), 1);
  EXPECT_TRUE(banners(*window)[0].contains("missing.json"));
}

TEST(Window, RunsThatCannotBeComparedSaySo) {
  const TraceFiles files;
  TraceFiles::write(files / "other.json", 1, "measured", 16, 2);
  const auto window = shown_window({QString::fromStdString(files.plan())});
  window->add({QString::fromStdString(
      pipesim::testing::source_file("tests/data/traces/hta_backward_thread.json"))});
  wait_until_idle(*window);
  EXPECT_EQ(window->session().document().traces.size(), 2U);
  EXPECT_EQ(window->session().document().pair, nullptr);
}

TEST(Window, TruncatedFilesShowTheirWholeEvents) {
  const TraceFiles files;
  const std::string whole = read_file(files.plan());
  write_file(files / "cut.json", whole.substr(0, whole.size() * 3 / 4));
  const auto window = shown_window({QString::fromStdString(files / "cut.json")});
  ASSERT_EQ(window->session().document().traces.size(), 1U);
  EXPECT_FALSE(banners(*window).isEmpty());
  EXPECT_FALSE(window->session().picture().rows.empty());
}

TEST(Window, DroppedFilesAreAdded) {
  const TraceFiles files;
  const auto window = shown_window();
  for (const std::string& path : {files.plan(), files.run()}) {
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(QString::fromStdString(path))});
    QDragEnterEvent enter({10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(window.get(), &enter);
    EXPECT_TRUE(enter.isAccepted());
    QDropEvent drop({10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(window.get(), &drop);
    EXPECT_TRUE(drop.isAccepted());
    wait_until_idle(*window);
  }
  EXPECT_EQ(window->session().document().traces.size(), 2U);
  EXPECT_TRUE(window->session().document().pair != nullptr);
}

TEST(Window, RolesCanBeChangedAndTracesClosed) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  ASSERT_EQ(window->session().document().pair->trace, (std::array{0, 1}));
  action_called(*window, "Swap Traces").trigger();
  wait_until_idle(*window);
  EXPECT_EQ(window->session().document().pair->trace, (std::array{1, 0}));
  window->close_trace(0);
  wait_until_idle(*window);
  EXPECT_EQ(window->session().document().traces.size(), 1U);
  EXPECT_EQ(window->session().document().pair, nullptr);
}

TEST(Window, RecentFilesAndThemeAreKept) {
  const TraceFiles files;
  WindowOptions options;
  options.settings_file = files / "settings.ini";
  {
    auto window = shown_window({QString::fromStdString(files.plan())}, options);
    window->open({QString::fromStdString(files.run())});
    wait_until_idle(*window);
    action_called(*window, "Dark").trigger();
    EXPECT_EQ(window->session().theme(), Theme::dark);
    window->close();
  }
  MainWindow again(options);
  EXPECT_EQ(again.session().theme(), Theme::dark);
  QMenu* recent = nullptr;
  for (QMenu* menu : again.findChildren<QMenu*>()) {
    if (QString(menu->title()).remove('&') == "Open Recent") recent = menu;
  }
  ASSERT_NE(recent, nullptr);
  emit recent->aboutToShow();
  ASSERT_EQ(recent->actions().size(), 2);
  EXPECT_EQ(recent->actions()[0]->text().toStdString(), files.run());
  recent->actions()[1]->trigger();
  wait_until_idle(again);
  EXPECT_EQ(again.session().document().traces.front()->paths.front(), files.plan());
}

TEST(Window, ThemesChangeColoursAtOnce) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  const auto darkness = [&] { return window->grab().toImage().scaled(1, 1).pixelColor(0, 0); };
  const int light = darkness().lightness();
  window->set_theme(Theme::dark);
  EXPECT_EQ(window->session().palette().background, palette(Theme::dark, {}).background);
  EXPECT_LT(darkness().lightness() + 50, light);
  window->set_theme(Theme::light);
  EXPECT_EQ(darkness().lightness(), light);
}

TEST(Window, TheViewIsSavedAsPngAndSvg) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  const std::string png = files / "view.png";
  window->write(png);
  EXPECT_EQ(QImage(QString::fromStdString(png)),
            painted(window->session().picture().list, label_height(1))
                .convertToFormat(QImage(QString::fromStdString(png)).format()));
  window->write(files / "view.svg");
  EXPECT_EQ(read_file(files / "view.svg"),
            to_svg(window->session().picture().list, label_height(1)));
  EXPECT_NE(pipesim::testing::input_error_of([&] { window->write(files / "view.jpg"); }),
            pipesim::testing::no_error);
  EXPECT_NE(pipesim::testing::error_of([&] { window->write("/no/such/folder/view.png"); }),
            pipesim::testing::no_error);
}

TEST(Window, TheTableInFrontIsSavedAsCsv) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  TablePanel& kinds = table(*window, "kinds");
  ASSERT_EQ(window->table_in_front(), &kinds);
  window->write(files / "kinds.csv");
  EXPECT_EQ(read_file(files / "kinds.csv"), to_csv(stage_kind_table(window->session().document())));
}

TEST(Window, TablesSortByValue) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  TablePanel& kinds = table(*window, "kinds");
  const TableModel& model = kinds.model();
  int column = 0;
  while (model.unsorted().columns[static_cast<std::size_t>(column)].name != "measured median")
    ++column;
  for (const auto order : {Qt::DescendingOrder, Qt::AscendingOrder}) {
    kinds.view().sortByColumn(column, order);
    std::vector<std::int64_t> values;
    for (int row = 0; row < model.rowCount(); ++row) {
      values.push_back(model.row(row).values[static_cast<std::size_t>(column)]);
    }
    ASSERT_GT(values.size(), 4U);
    ASSERT_NE(values.front(), values.back());
    if (order == Qt::DescendingOrder) std::ranges::reverse(values);
    EXPECT_TRUE(std::ranges::is_sorted(values));
  }
}

TEST(Window, ACauseLeadsToItsBars) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  QTableView& causes = window->findChild<Summary*>()->causes().view();
  const QRect cell = causes.visualRect(causes.model()->index(0, 0));
  ASSERT_TRUE(cell.isValid());
  QTest::mouseClick(causes.viewport(), Qt::LeftButton, {}, cell.center());
  const Session& session = window->session();
  ASSERT_FALSE(session.view().emphasised.empty());
  EXPECT_TRUE(session.scene().emphasises);
  for (const Pick& pick : session.view().emphasised) {
    const auto& trace = *session.document().traces[static_cast<std::size_t>(pick.trace)];
    EXPECT_EQ(label_of(trace, pick.ref).front(), 'B');
    EXPECT_EQ(trace.run->spans[pick.ref].rank, 2);
  }
  QTest::keyClick(&window->timeline(), Qt::Key_Escape);
  EXPECT_TRUE(session.view().emphasised.empty());
}

TEST(Window, AnOperationLeadsToItsBar) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  TablePanel& operations = table(*window, "operations");
  ASSERT_GT(operations.model().rowCount(), 3);
  const Table::Row row = operations.model().row(2);
  ASSERT_FALSE(row.about.empty());
  const QRect cell = operations.view().visualRect(operations.model().index(2, 0));
  QTest::mouseClick(operations.view().viewport(), Qt::LeftButton, {}, cell.center());
  EXPECT_EQ(window->session().view().emphasised, row.about);
}

TEST(Window, ThePlaygroundPlaysAndGivesTheTracesBack) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  const auto before = window->session().shared_document();
  auto* playing = window->findChild<QAction*>("playing");
  for (int i = 0; i < 20; ++i) window->session().run(Command::zoom_in);
  playing->trigger();
  const Session& session = window->session();
  ASSERT_EQ(session.document().traces.size(), 1U);
  EXPECT_EQ(session.view().range, session.scene().home);
  EXPECT_EQ(session.document().traces.front(),
            window->findChild<PlaygroundPanel*>()->outcome().trace);
  Settings settings;
  settings.stages = 6;
  window->findChild<PlaygroundPanel*>()->set_settings(settings);
  EXPECT_EQ(session.document().traces.front()->run->ranks, 6);
  EXPECT_EQ(session.scene().groups.size(), 6U);
  window->findChild<PlaygroundPanel*>()->step_on();
  EXPECT_TRUE(session.view().picked.has_value());
  EXPECT_FALSE(session.view().emphasised.empty());
  playing->trigger();
  EXPECT_EQ(session.document().traces, before->traces);
  EXPECT_TRUE(session.document().pair != nullptr);
}

// Whatever is asked of the open traces while it plays, it is done to those.
TEST(Window, WhatIsOpenOutlivesThePlayground) {
  const TraceFiles files;
  const auto window = shown_window(files.both());
  const Session& session = window->session();
  auto* playing = window->findChild<QAction*>("playing");
  const auto play = [&] {
    playing->trigger();
    ASSERT_EQ(session.document().traces.size(), 1U);
    ASSERT_TRUE(session.document().traces.front()->paths.empty());
  };
  play();
  window->set_capacity(std::int64_t{5} << 30);
  wait_until_idle(*window);
  EXPECT_FALSE(playing->isChecked());
  EXPECT_EQ(session.document().traces.size(), 2U);
  EXPECT_EQ(session.document().capacity_bytes, std::int64_t{5} << 30);
  EXPECT_EQ(session.view().range, session.scene().home);
  play();
  action_called(*window, "Swap Traces").trigger();
  wait_until_idle(*window);
  ASSERT_TRUE(session.document().pair != nullptr);
  EXPECT_EQ(session.document().pair->trace, (std::array{1, 0}));
  play();
  window->close_trace(0);
  wait_until_idle(*window);
  ASSERT_EQ(session.document().traces.size(), 1U);
  EXPECT_EQ(session.document().traces.front()->paths.front(), files.run());
  EXPECT_FALSE(playing->isChecked());
}

TEST(Window, WhatIsChosenWhileOpeningStays) {
  const TraceFiles files;
  const auto window = shown_window();
  window->open(files.both());
  ASSERT_TRUE(window->is_loading());
  SceneOptions chosen = window->session().view().options;
  chosen.show = Show::overlay;
  chosen.colouring = Colouring::microbatch;
  View next = window->session().view();
  next.options = chosen;
  window->session().change(next);
  wait_until_idle(*window);
  ASSERT_EQ(window->session().document().traces.size(), 2U);
  EXPECT_EQ(window->session().view().options, chosen);
  EXPECT_EQ(window->session().scene().options, chosen);
  for (const Group& group : window->session().scene().groups) {
    EXPECT_EQ(group.lanes.size(), build_scene(window->session().document(), chosen)
                                      .groups[static_cast<std::size_t>(group.rank)]
                                      .lanes.size());
  }
}

// Unless asked for, and as long as nothing else is open.
TEST(Window, InputPipelinesAreColouredByBatch) {
  const TraceFiles files;
  const pipesim::testing::TemporaryFolder folder;
  std::mt19937_64 random(1);
  write_input_trace(
      pipesim::testing::random_run(pipesim::testing::overlapping_program(2, 3), random),
      folder / "input.json");
  const QStringList input{QString::fromStdString(folder / "input.json")};
  const auto window = shown_window();
  const auto colouring = [&] {
    wait_until_idle(*window);
    EXPECT_EQ(window->session().scene().options, window->session().view().options);
    const Colouring now = window->session().view().options.colouring;
    EXPECT_EQ(window->session().palette().shades, palette(Theme::light, now).shades);
    return now;
  };
  window->set_theme(Theme::light);
  window->open(files.both());
  EXPECT_EQ(colouring(), Colouring::kind);
  window->open(input);
  EXPECT_EQ(colouring(), Colouring::microbatch);
  EXPECT_TRUE(banners(*window).isEmpty());
  window->open(files.both());
  EXPECT_EQ(colouring(), Colouring::kind);
  WindowOptions options;
  options.colouring_chosen = true;
  MainWindow chosen(options);
  chosen.open(input);
  wait_until_idle(chosen);
  EXPECT_EQ(chosen.session().view().options.colouring, Colouring::kind);
}

TEST(Window, WhatIsAddedWhileOpeningWaitsForIt) {
  const TraceFiles files;
  const auto window = shown_window();
  QSignalSpy idle(window.get(), &MainWindow::idle);
  window->open({QString::fromStdString(files.plan())});
  window->add({QString::fromStdString(files / "missing.json")});
  window->add({QString::fromStdString(files.run())});
  window->set_capacity(std::int64_t{5} << 30);
  ASSERT_TRUE(window->is_loading());
  EXPECT_TRUE(banners(*window).isEmpty());
  window->close_trace(0);  // which?
  EXPECT_EQ(banners(*window).size(), 1);
  ASSERT_TRUE(idle.wait(testing::patience_ms));
  EXPECT_EQ(idle.count(), 1);
  ASSERT_EQ(window->session().document().traces.size(), 2U);
  EXPECT_TRUE(window->session().document().pair != nullptr);
  EXPECT_EQ(window->session().document().capacity_bytes, std::int64_t{5} << 30);
  ASSERT_EQ(banners(*window).size(), 1);
  EXPECT_TRUE(banners(*window).front().contains("missing.json"));
}

TEST(Window, CancelDropsWhatWaits) {
  const TraceFiles files;
  const auto window = shown_window();
  window->open({QString::fromStdString(files.plan())});
  window->add({QString::fromStdString(files.run())});
  QTest::mouseClick(window->findChild<QWidget*>("cancel"), Qt::LeftButton);
  EXPECT_FALSE(window->is_loading());
  window->settle();
  EXPECT_TRUE(window->session().document().traces.empty());
}

TEST(Window, NamesAreShownAsTheyAre) {
  const TraceFiles files;
  const std::string odd = files / "a&b\nc.json";
  write_file(odd, read_file(files.plan()));
  const auto window = shown_window({QString::fromStdString(odd)});
  const std::string title = window->windowTitle().toStdString();
  EXPECT_NE(title.find("a&b\\x0ac"), std::string::npos) << title;
  EXPECT_EQ(menu_text("a&b\nc").toStdString(), "a&&b\\x0ac");
  EXPECT_NO_FATAL_FAILURE(action_called(*window, "ab\\x0ac.json"));
}

TEST(Window, TheCapacityIsDrawn) {
  const TraceFiles files;
  WindowOptions options;
  options.capacity_bytes = std::int64_t{3} << 30;
  const auto window = shown_window(files.both(), options);
  ASSERT_EQ(window->session().document().capacity_bytes, options.capacity_bytes);
  window->set_capacity(std::nullopt);
  wait_until_idle(*window);
  EXPECT_FALSE(window->session().document().capacity_bytes.has_value());
}

// At the smallest size that is promised, no word of a button, tab or label is cut off
// and nothing lies on something else.
TEST(Window, NothingIsCutAt1024x700) {
  const TraceFiles files;
  for (const Theme theme : {Theme::light, Theme::dark}) {
    WindowOptions options;
    options.theme = theme;
    const auto window = shown_window(files.both(), options, {1024, 700});
    ASSERT_EQ(window->size(), QSize(1024, 700));
    for (const auto* button : window->findChildren<QToolButton*>()) {
      if (!button->isVisible() || button->text().isEmpty()) continue;
      EXPECT_GE(button->width(), button->minimumSizeHint().width()) << button->text().toStdString();
      const QRect at(button->mapTo(window.get(), QPoint()), button->size());
      EXPECT_TRUE(window->rect().contains(at)) << button->text().toStdString();
    }
    for (const auto* tabs : window->findChildren<QTabBar*>()) {
      if (!tabs->isVisible()) continue;
      for (int i = 0; i < tabs->count(); ++i) {
        EXPECT_TRUE(tabs->rect().contains(tabs->tabRect(i))) << tabs->tabText(i).toStdString();
        EXPECT_GE(tabs->tabRect(i).width(),
                  tabs->fontMetrics().horizontalAdvance(tabs->tabText(i)));
      }
    }
    for (const auto* label : window->findChildren<QLabel*>()) {
      if (!label->isVisible() || label->text().isEmpty()) continue;
      const int needed =
          label->wordWrap() ? label->heightForWidth(label->width()) : label->sizeHint().height();
      EXPECT_GE(label->height(), needed) << label->text().toStdString();
      if (!label->wordWrap() && label->sizePolicy().horizontalPolicy() != QSizePolicy::Ignored) {
        EXPECT_GE(label->width(), label->sizeHint().width()) << label->text().toStdString();
      }
    }
    // The timeline gets most of the room.
    const auto area = [](const QWidget& of) { return of.width() * of.height(); };
    for (const auto* panel : window->findChildren<QDockWidget*>()) {
      if (panel->visibleRegion().isEmpty()) continue;  // behind another
      EXPECT_GT(area(window->timeline()), area(*panel) * 3 / 2);
    }
  }
}

}  // namespace
}  // namespace pipesim::gui
