// The core's commands as Qt actions: for menus, the tool bar and keys.
//
// Owned by the window; on its thread.
#pragma once

#include <QAction>
#include <QKeySequence>
#include <QList>
#include <QObject>
#include <map>
#include <string_view>

#include "gui/window/session.h"

namespace pipesim::gui {

// Parses CommandHelp::keys.
QList<QKeySequence> sequences_of(std::string_view keys);
// "W, ↑": for display.
QString readable_keys(std::string_view keys);
// A name as a menu entry: on one line, with & escaped.
QString menu_text(std::string_view name);

// Text of a tool tip, with markup escaped.
QString tip_text(const QString& text);
// Disabled if there is an objection, which the tool tip then shows instead of `tip`.
void set_usable(QAction& action, const QString& objection, const QString& tip);

class CommandActions : public QObject {
  Q_OBJECT
 public:
  // `window` gets the actions, and with them their keys.
  CommandActions(Session& session, QWidget* window);

  QAction* operator[](Command command) const { return actions_.at(command); }

 signals:
  void asked(pipesim::gui::Command command);

 private:
  void follow();

  Session& session_;
  std::map<Command, QAction*> actions_;
};

// Prevents keys that move within tables, lists and number fields from being commands while these
// have the focus. Install it on the application.
class NavigationKeys : public QObject {
  Q_OBJECT
 public:
  using QObject::QObject;
  bool eventFilter(QObject* watched, QEvent* event) override;
};

}  // namespace pipesim::gui
