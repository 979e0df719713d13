// The commands of the core as Qt's actions: for menus, the tool bar and keys.
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

// Of CommandHelp::keys.
QList<QKeySequence> sequences_of(std::string_view keys);
// "W, ↑": as people read them.
QString readable_keys(std::string_view keys);
// A name as a menu's entry: on one line, and an & is no key.
QString menu_text(std::string_view name);

// Of a tool tip: what looks like tags is no markup.
QString tip_text(const QString& text);
// Disabled where there is an objection, which the tool tip then tells instead of `tip`.
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

// Keeps keys that move within tables, lists and number fields from being commands
// while these have the focus. To be installed on the application.
class NavigationKeys : public QObject {
  Q_OBJECT
 public:
  using QObject::QObject;
  bool eventFilter(QObject* watched, QEvent* event) override;
};

}  // namespace pipesim::gui
