// The window's menus and dialogs.
#include <QActionGroup>
#include <QApplication>
#include <QDockWidget>
#include <QFileDialog>
#include <QInputDialog>
#include <QMenu>
#include <QMenuBar>
#include <QSettings>
#include <algorithm>
#include <utility>

#include "gui/window/actions.h"
#include "gui/window/find_bar.h"
#include "gui/window/help_overlay.h"
#include "gui/window/main_window.h"
#include "gui/window/playground_panel.h"
#include "gui/window/timeline.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

std::ptrdiff_t runs_in(const Document& document) {
  return std::ranges::count_if(document.traces,
                               [](const auto& trace) { return trace->run || trace->input; });
}

}  // namespace

void MainWindow::make_menus() {
  const auto add_action = [this](QMenu* menu, const QString& text, const QString& keys, auto work) {
    QAction* action = menu->addAction(text, this, work);
    if (!keys.isEmpty()) action->setShortcuts(sequences_of(keys.toStdString()));
    return action;
  };
  const auto add_commands = [this](QMenu* menu, std::initializer_list<Command> commands) {
    for (const Command command : commands) menu->addAction((*actions_)[command]);
    menu->addSeparator();
  };

  const auto if_shown = [this] {
    return session_->document().traces.empty() ? tr("Nothing is open yet.") : QString();
  };
  const auto if_run_shown = [this] {
    const auto& traces = session_->document().traces;
    const bool any =
        std::ranges::any_of(traces, [](const auto& one) { return one->run.has_value(); });
    return any ? QString() : tr("The open traces contain no known pipeline.");
  };
  const auto if_open = [this] {
    return base_document()->traces.empty() ? tr("Nothing is open yet.") : QString();
  };
  const auto if_several_runs = [this] {
    return runs_in(*base_document()) > 1
               ? QString()
               : tr("Comparing needs two runs of a pipeline: add another one.");
  };

  QMenu* file = menuBar()->addMenu(tr("&File"));
  add_action(file, tr("&Open..."), "Ctrl+O", [this] { ask_open(false); });
  add_action(file, tr("&Add..."), "Ctrl+Shift+O", [this] { ask_open(true); });
  recent_ = file->addMenu(tr("Open &Recent"));
  connect(recent_, &QMenu::aboutToShow, this, &MainWindow::fill_recent);
  close_ = file->addMenu(tr("&Close"));
  add_condition(close_->menuAction(), if_open);
  file->addSeparator();
  add_condition(
      add_action(file, tr("Save View as &PNG..."), "Ctrl+S", [this] { ask_write("png"); }),
      if_shown);
  add_condition(add_action(file, tr("Save View as &SVG..."), {}, [this] { ask_write("svg"); }),
                if_shown);
  tables_menu_ = file->addMenu(tr("Save Table as CS&V"));
  connect(tables_menu_, &QMenu::aboutToShow, this, &MainWindow::fill_tables);
  add_condition(tables_menu_->menuAction(), if_shown);
  file->addSeparator();
  add_action(file, tr("&Quit"), "Ctrl+Q", [this] { close(); });

  QMenu* view = menuBar()->addMenu(tr("&View"));
  add_commands(view, {Command::undo, Command::redo});
  add_commands(view, {Command::align_absolute, Command::align_iteration, Command::align_slot});
  add_commands(view, {Command::show_stacked, Command::show_overlay, Command::show_difference});
  add_commands(view, {Command::colour_kind, Command::colour_microbatch, Command::colour_error});
  add_commands(view, {Command::toggle_arrows, Command::toggle_curves, Command::toggle_critical,
                      Command::toggle_transfers, Command::pin});
  add_condition(add_action(view, tr("&Filter Tracks..."), "Ctrl+P", [this] { filter_->open(); }),
                if_shown);
  add_condition(add_action(view, tr("&Memory Capacity..."), {}, [this] { ask_capacity(); }),
                if_run_shown);
  panels_menu_ = view->addMenu(tr("&Panels"));
  for (QDockWidget* panel : panels_) {
    if (panel->widget() != playground_) panels_menu_->addAction(panel->toggleViewAction());
  }
  view->addAction(playing_);
  QMenu* theme = view->addMenu(tr("&Theme"));
  themes_ = new QActionGroup(this);
  for (const Theme each : {Theme::light, Theme::dark}) {
    QAction* action = theme->addAction(each == Theme::light ? tr("&Light") : tr("&Dark"), this,
                                       [this, each] { set_theme(each); });
    action->setObjectName(each == Theme::light ? "light" : "dark");
    action->setCheckable(true);
    action->setChecked(session_->theme() == each);
    themes_->addAction(action);
  }

  QMenu* go = menuBar()->addMenu(tr("&Go"));
  add_commands(
      go, {Command::focus, Command::fit, Command::zoom_in, Command::zoom_out, Command::pan_left,
           Command::pan_right, Command::scroll_up, Command::scroll_down});
  add_commands(go, {Command::previous, Command::next, Command::flow_back, Command::flow_forward,
                    Command::other_side});
  add_commands(go, {Command::select_area, Command::mark, Command::clear_marks, Command::clear});
  add_condition(add_action(go, tr("&Search..."), "/, Ctrl+F", [this] { find_->open(); }), if_shown);

  QMenu* compare = menuBar()->addMenu(tr("&Compare"));
  first_run_ = compare->addMenu(tr("&First Trace"));
  second_run_ = compare->addMenu(tr("&Second Trace"));
  add_condition(first_run_->menuAction(), if_several_runs);
  add_condition(second_run_->menuAction(), if_several_runs);
  QAction* swap = add_action(compare, tr("S&wap Traces"), {}, [this] {
    if (const auto pair = base_document()->pair) compare_as(pair->trace[1], pair->trace[0]);
  });
  add_condition(swap,
                [this] { return base_document()->pair ? QString() : tr("Nothing is compared."); });

  QMenu* help = menuBar()->addMenu(tr("&Help"));
  add_action(help, tr("&Keyboard and Mouse"), "?, F1",
             [this] { help_->setVisible(!help_->isVisible()); });
  for (QMenu* menu : menuBar()->findChildren<QMenu*>()) menu->setToolTipsVisible(true);
}

void MainWindow::add_condition(QAction* action, std::function<QString()> objection) {
  conditions_.push_back({action, action->toolTip(), std::move(objection)});
}

void MainWindow::follow_conditions() {
  for (const Condition& one : conditions_) set_usable(*one.action, one.objection(), one.tip);
}

void MainWindow::fill_recent() {
  recent_->clear();
  const QStringList paths = settings_ ? settings_->value("recent").toStringList() : QStringList();
  for (const QString& path : paths) {
    recent_->addAction(menu_text(path.toStdString()), this, [this, path] { open({path}); });
  }
  if (paths.isEmpty()) recent_->addAction(tr("(none)"))->setEnabled(false);
}

void MainWindow::fill_tables() {
  tables_menu_->clear();
  for (const NamedTable& one : tables_) {
    one.panel->refresh();
    QAction* action = tables_menu_->addAction(menu_text(one.name.toStdString()), this, [this, one] {
      const QString path = ask_path("csv");
      if (!path.isEmpty()) attempt([&] { write_table_called(one.name, path.toStdString()); });
    });
    set_usable(*action, one.panel->table().rows.empty() ? tr("It is empty.") : QString(), {});
  }
}

void MainWindow::fill_roles() {
  const auto shared = base_document();
  const Document& document = *shared;
  const auto fill = [&](QMenu* menu, std::optional<Side> side) {
    menu->clear();
    for (int i = 0; i < static_cast<int>(document.traces.size()); ++i) {
      const OpenTrace& trace = *document.traces[static_cast<std::size_t>(i)];
      QAction* action = menu->addAction(menu_text(trace.name));
      if (!side) {
        connect(action, &QAction::triggered, this, [this, i] { close_trace(i); });
        continue;
      }
      action->setCheckable(true);
      set_usable(*action,
                 trace.run || trace.input ? QString() : tr("It contains no known pipeline."), {});
      action->setChecked(document.side_of(i) == side);
      connect(action, &QAction::triggered, this, [this, i, side] {
        const auto pair = base_document()->pair;
        int other = 0;
        if (pair) {
          other = pair->trace[static_cast<std::size_t>(*side == predicted_side)];
          // If it has the other role, the two are swapped.
          if (other == i) other = pair->trace[static_cast<std::size_t>(*side)];
        } else if (i == 0) {
          other = 1;
        }
        *side == predicted_side ? compare_as(i, other) : compare_as(other, i);
      });
    }
  };
  fill(first_run_, predicted_side);
  fill(second_run_, measured_side);
  fill(close_, std::nullopt);
}

void MainWindow::ask_open(bool adds) {
  const QStringList paths = QFileDialog::getOpenFileNames(
      this, adds ? tr("Add traces") : tr("Open traces"), {},
      tr("Traces (*.json *.json.gz *.pt.trace.json *.gz);;All files (*)"));
  adds ? add(paths) : open(paths);
}

// Empty if nothing was chosen.
QString MainWindow::ask_path(const QString& kind) {
  QString path = QFileDialog::getSaveFileName(this, tr("Save"), "pipeview." + kind,
                                              QString("%1 (*.%2)").arg(kind.toUpper(), kind));
  if (!path.isEmpty() && !path.endsWith("." + kind)) path += "." + kind;
  return path;
}

void MainWindow::ask_write(const QString& kind) {
  const QString path = ask_path(kind);
  if (!path.isEmpty()) attempt([&] { write(path.toStdString()); });
}

void MainWindow::ask_capacity() {
  const auto now = base_document()->capacity_bytes;
  bool ok = false;
  const QString text = QInputDialog::getText(
      this, tr("Memory capacity"), tr("Per rank, such as 16GiB; empty for none:"),
      QLineEdit::Normal, now ? QString("%1B").arg(*now) : QString(), &ok);
  if (!ok) return;
  attempt([&] {
    if (text.trimmed().isEmpty()) {
      set_capacity(std::nullopt);
    } else {
      set_capacity(parse_bytes(text.trimmed().toStdString(), "memory capacity"));
    }
  });
}

void MainWindow::context_menu(const Hit& hit, const QPoint& global) {
  QMenu menu(this);
  if (hit.pick) {
    View next = session_->view();
    next.picked = hit.pick;
    session_->change(std::move(next));
    for (const Command command : {Command::focus, Command::select_area, Command::other_side,
                                  Command::flow_back, Command::flow_forward}) {
      menu.addAction((*actions_)[command]);
    }
    menu.addSeparator();
  }
  if (hit.group >= 0) {
    const std::string name = session_->scene().groups[static_cast<std::size_t>(hit.group)].name;
    const bool pinned = session_->view().pinned.contains(name);
    menu.addAction((pinned ? tr("Unpin %1") : tr("Pin %1")).arg(menu_text(name)), this,
                   [this, name, pinned] {
                     View next = session_->view();
                     if (pinned) {
                       next.pinned.erase(name);
                     } else {
                       next.pinned.insert(name);
                     }
                     session_->change(std::move(next));
                   });
  }
  menu.addAction((*actions_)[Command::fit]);
  menu.exec(global);
}

}  // namespace pipesim::gui
