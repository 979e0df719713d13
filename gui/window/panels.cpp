// The parts of the window: the centre, the panels around it, tool bar and status bar.
#include <QApplication>
#include <QDockWidget>
#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTabBar>
#include <QToolBar>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "gui/window/actions.h"
#include "gui/window/banner.h"
#include "gui/window/find_bar.h"
#include "gui/window/flame_panel.h"
#include "gui/window/help_overlay.h"
#include "gui/window/main_window.h"
#include "gui/window/overview.h"
#include "gui/window/playground_panel.h"
#include "gui/window/summary.h"
#include "gui/window/table_view.h"
#include "gui/window/timeline.h"

namespace pipesim::gui {

void MainWindow::make_centre() {
  auto* shown = new QWidget(this);
  overview_ = new Overview(*session_, shown);
  timeline_ = new Timeline(*session_, shown);
  find_ = new FindBar(*session_, shown);
  filter_ = new FilterBar(*session_, shown);
  auto* rows = new QVBoxLayout(shown);
  rows->setContentsMargins(0, 0, 0, 0);
  rows->setSpacing(0);
  rows->addWidget(overview_);
  rows->addWidget(timeline_, 1);
  rows->addWidget(filter_);
  rows->addWidget(find_);

  auto* welcome =
      new QLabel(tr("<h2>pipeview</h2>"
                    "<p>Open a predicted and a measured trace:<br>"
                    "drop the files here, or press Ctrl+O.</p>"
                    "<p>Or play with a pipeline: the button Playground, above on the right.</p>"
                    "<p>Press ? for all keys.</p>"),
                 this);
  welcome->setAlignment(Qt::AlignCenter);
  pages_ = new QStackedWidget(this);
  pages_->addWidget(welcome);
  pages_->addWidget(shown);

  auto* centre = new QWidget(this);
  banners_ = new Banners(centre);
  auto* column = new QVBoxLayout(centre);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(banners_);
  column->addWidget(pages_, 1);
  setCentralWidget(centre);
  help_ = new HelpOverlay(this);
  for (LineBar* bar : {static_cast<LineBar*>(find_), static_cast<LineBar*>(filter_)}) {
    connect(bar, &LineBar::closed, this, [this] { timeline_->setFocus(); });
  }
  connect(timeline_, &Timeline::area_selected, this, [this] { raise_panel("area"); });
  connect(timeline_, &Timeline::picked, this, [this] { raise_panel("details"); });
  connect(timeline_, &Timeline::context_asked, this, &MainWindow::context_menu);
}

QDockWidget* MainWindow::add_panel(const QString& name, const char* id, QWidget* content,
                                   Qt::DockWidgetArea area) {
  auto* dock = new QDockWidget(name, this);
  dock->setObjectName(id);
  dock->setWidget(content);
  // Tabs and contents identify it.
  dock->setTitleBarWidget(new QWidget(dock));
  dock->setAllowedAreas(Qt::BottomDockWidgetArea | Qt::RightDockWidgetArea |
                        Qt::LeftDockWidgetArea);
  addDockWidget(area, dock);
  panels_ += dock;
  return dock;
}

TablePanel* MainWindow::add_table(const QString& name, const char* id, TablePanel::Make make,
                                  TablePanel::DependsOn depends_on) {
  auto* table = new TablePanel(*session_, std::move(make), depends_on, this);
  tables_.push_back({name, table});
  QDockWidget* first = findChild<QDockWidget*>("details");
  QDockWidget* dock = add_panel(name, id, table, Qt::BottomDockWidgetArea);
  if (first != nullptr) tabifyDockWidget(first, dock);
  connect(table, &TablePanel::chosen, this, [this](const std::vector<Pick>& about) {
    if (!about.empty()) session_->show(about);
  });
  return table;
}

void MainWindow::make_panels() {
  setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
  setDockOptions(AnimatedDocks | AllowTabbedDocks | AllowNestedDocks);
  setTabPosition(Qt::AllDockWidgetAreas, QTabWidget::North);
  summary_ = new Summary(*session_, this);
  add_panel(tr("Summary"), "summary", summary_, Qt::RightDockWidgetArea);
  connect(&summary_->causes(), &TablePanel::chosen, this,
          [this](const std::vector<Pick>& about) { session_->show(about); });
  tables_.push_back({tr("Causes"), &summary_->causes()});
  tables_.push_back({tr("Where the difference comes from"), &summary_->gap()});
  playground_ = new PlaygroundPanel(this);
  QDockWidget* dock =
      add_panel(tr("Playground"), "playground", playground_, Qt::RightDockWidgetArea);
  tabifyDockWidget(panels_.front(), dock);
  dock->hide();
  connect(playground_, &PlaygroundPanel::played, this,
          [this](const std::shared_ptr<const Played>& played) { show_played(*played); });
  connect(playground_, &PlaygroundPanel::step_shown, this, &MainWindow::show_step);
  connect(playground_, &PlaygroundPanel::steps_left, this, [this] { session_->show({}); });

  using DependsOn = TablePanel::DependsOn;
  add_table(
      tr("Details"), "details",
      [](const Session& s) {
        if (s.view().picked) return detail_table(s.document(), s.scene(), *s.view().picked);
        Table nothing;
        nothing.note = "Click a bar in the timeline to see its details.";
        return nothing;
      },
      DependsOn::picked)
      ->fold();
  const auto of_kind = [](const Session& s, const std::vector<Pick>& chosen) {
    return kind_histogram(s.document(), chosen);
  };
  add_table(
      tr("Operations"), "operations",
      [](const Session& s) { return operation_table(s.document()); }, DependsOn::document)
      ->add_histogram(of_kind);
  TablePanel* kinds = add_table(
      tr("Stage kinds"), "kinds", [](const Session& s) { return stage_kind_table(s.document()); },
      DependsOn::document);
  kinds->draw_bars("error");
  kinds->add_histogram(of_kind);
  add_table(
      tr("Bubbles"), "bubbles", [](const Session& s) { return bubble_table(s.document()); },
      DependsOn::document);
  add_table(
      tr("Area"), "area",
      [](const Session& s) { return area_table(s.document(), s.scene(), s.view()); },
      DependsOn::area)
      ->add_histogram([](const Session& s, const std::vector<Pick>&) {
        return area_histogram(s.document(), s.scene(), s.view());
      });
  add_table(
      tr("Names"), "names", [](const Session& s) { return name_table(s.document()); },
      DependsOn::document)
      ->add_histogram(of_kind);
  add_table(
      tr("Traces"), "traces", [](const Session& s) { return trace_table(s.document()); },
      DependsOn::document);
  flame_ = new FlamePanel(*session_, this);
  tabifyDockWidget(findChild<QDockWidget*>("details"),
                   add_panel(tr("Flame"), "flame", flame_, Qt::BottomDockWidgetArea));
}

void MainWindow::follow_panels() {
  const Document& document = session_->document();
  const auto any = [&](auto has) { return std::ranges::any_of(document.traces, has); };
  const bool has_run = any([](const auto& trace) { return trace->run || trace->input; });
  const bool has_events = any([](const auto& trace) { return trace->events.has_value(); });
  const bool is_compared = document.pair != nullptr;
  const auto follow = [&](const char* id, bool means_something, const QString& objection) {
    auto* dock = findChild<QDockWidget*>(id);
    QAction* action = dock->toggleViewAction();
    set_usable(*action, means_something ? QString() : objection, dock->windowTitle());
    if (!means_something && !dock->isHidden()) {
      dock->hide();
      set_aside_.insert(id);
    } else if (means_something && set_aside_.erase(id) > 0) {
      dock->show();
    }
  };
  const QString alone =
      tr("Comparing needs two runs of a pipeline, or of an input pipeline: open another one.");
  follow("operations", is_compared, alone);
  follow("kinds", is_compared, alone);
  follow("bubbles", has_run, tr("The open traces contain no known pipeline."));
  follow("names", has_events,
         tr("Only events have names; the open traces are runs of a pipeline."));
}

void MainWindow::raise_panel(const char* id) {
  auto* dock = findChild<QDockWidget*>(id);
  if (dock == nullptr) return;
  dock->show();
  // A tab exists once the window has laid the panels out.
  QApplication::sendPostedEvents(nullptr, QEvent::LayoutRequest);
  dock->raise();
}

void MainWindow::make_tool_bar() {
  QToolBar* bar = addToolBar(tr("Views"));
  bar->setObjectName("views");
  bar->setMovable(false);
  bar->setStyleSheet(
      "QToolBar { spacing: 0px; padding: 3px; border-bottom: 1px solid palette(mid); }"
      "QToolButton { padding: 2px 8px; margin: 0px; border: 1px solid palette(mid);"
      " background: palette(button); border-radius: 0px; }"
      "QToolButton:hover { background: palette(midlight); }"
      "QToolButton:checked { background: palette(highlight); color: palette(highlighted-text);"
      " border-color: palette(highlight); }");
  const auto add_choice = [&](const QString& name, std::initializer_list<Command> commands) {
    auto* label = new QLabel(name, bar);
    label->setContentsMargins(8, 0, 4, 0);
    bar->addWidget(label);
    for (const Command command : commands) {
      QAction* action = (*actions_)[command];
      auto* button = new QToolButton(bar);
      button->setDefaultAction(action);
      button->setToolButtonStyle(Qt::ToolButtonTextOnly);
      button->setFocusPolicy(Qt::NoFocus);
      bar->addWidget(button);
    }
  };
  add_choice(tr("Align"), {Command::align_absolute, Command::align_iteration, Command::align_slot});
  add_choice(tr("Show"), {Command::show_stacked, Command::show_overlay, Command::show_difference});
  add_choice(tr("Colour"),
             {Command::colour_kind, Command::colour_microbatch, Command::colour_error});
  auto* gap = new QWidget(bar);
  gap->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  bar->addWidget(gap);
  playing_ = bar->addAction(tr("Playground"));
  playing_->setObjectName("playing");
  playing_->setCheckable(true);
  playing_->setToolTip(tr("A pipeline to play with: schedule, stages, times"));
  connect(playing_, &QAction::toggled, this, &MainWindow::play);
}

void MainWindow::make_status_bar() {
  status_ = new QLabel(this);
  status_->setTextFormat(Qt::PlainText);
  status_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  hidden_ = new QLabel(this);
  progress_ = new QWidget(this);
  progress_bar_ = new QProgressBar(progress_);
  progress_bar_->setRange(0, 1000);
  progress_bar_->setFixedWidth(200);
  progress_bar_->setMaximumHeight(16);
  auto* cancel = new QPushButton(tr("Cancel"), progress_);
  cancel->setObjectName("cancel");
  connect(cancel, &QPushButton::clicked, loader_, &Loader::cancel);
  auto* row = new QHBoxLayout(progress_);
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(progress_bar_);
  row->addWidget(cancel);
  progress_->hide();
  statusBar()->setSizeGripEnabled(false);
  statusBar()->addWidget(status_, 1);
  statusBar()->addPermanentWidget(hidden_);
  statusBar()->addPermanentWidget(progress_);
}

}  // namespace pipesim::gui
