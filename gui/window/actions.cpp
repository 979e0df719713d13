#include "gui/window/actions.h"

#include <QAbstractItemView>
#include <QAbstractSlider>
#include <QAbstractSpinBox>
#include <QActionGroup>
#include <QComboBox>
#include <QKeyEvent>
#include <QRegularExpression>
#include <QTextDocument>
#include <QWidget>
#include <vector>

#include "gui/commands/objections.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

// Mutually exclusive commands, with their words in the tool bar.
struct Choice {
  Command command;
  const char* word;
};
const std::vector<std::vector<Choice>> choices{{{Command::align_absolute, "absolute"},
                                                {Command::align_iteration, "iteration"},
                                                {Command::align_slot, "slot"}},
                                               {{Command::show_stacked, "stacked"},
                                                {Command::show_overlay, "overlay"},
                                                {Command::show_difference, "difference"}},
                                               {{Command::colour_kind, "kind"},
                                                {Command::colour_microbatch, "microbatch"},
                                                {Command::colour_error, "error"}}};

}  // namespace

QList<QKeySequence> sequences_of(std::string_view keys) {
  QList<QKeySequence> all;
  const QString text = QString::fromUtf8(keys.data(), static_cast<int>(keys.size()));
  for (const QString& one : text.split(", ", Qt::SkipEmptyParts)) {
    all += QKeySequence(one, QKeySequence::PortableText);
  }
  return all;
}

QString readable_keys(std::string_view keys) {
  QString text = QString::fromUtf8(keys.data(), static_cast<int>(keys.size()));
  text.replace("PgUp", "Page up").replace("PgDown", "Page down");
  text.replace("Left", "←").replace("Right", "→");
  static const QRegularExpression up("\\bUp\\b");
  static const QRegularExpression down("\\bDown\\b");
  return text.replace(up, "↑").replace(down, "↓");
}

QString menu_text(std::string_view name) {
  return QString::fromStdString(printable(name)).replace('&', "&&");
}

QString tip_text(const QString& text) {
  return Qt::mightBeRichText(text) ? text.toHtmlEscaped() : text;
}

void set_usable(QAction& action, const QString& objection, const QString& tip) {
  action.setEnabled(objection.isEmpty());
  const QString text = tip_text(objection.isEmpty() ? tip : objection);
  if (action.toolTip() != text) action.setToolTip(text);
}

CommandActions::CommandActions(Session& session, QWidget* window)
    : QObject(window), session_(session) {
  for (const CommandHelp& help : command_list()) {
    auto* action = new QAction(menu_text(help.title), window);
    action->setShortcuts(sequences_of(help.keys));
    action->setObjectName(QString("command%1").arg(static_cast<int>(help.command)));
    connect(action, &QAction::triggered, this,
            [this, command = help.command] { emit asked(command); });
    window->addAction(action);
    actions_[help.command] = action;
  }
  for (const auto& choice : choices) {
    auto* group = new QActionGroup(this);
    for (const Choice& one : choice) {
      QAction* action = actions_.at(one.command);
      action->setCheckable(true);
      action->setIconText(tr(one.word));
      group->addAction(action);
    }
  }
  for (const Command toggle : {Command::toggle_arrows, Command::toggle_curves,
                               Command::toggle_critical, Command::toggle_transfers}) {
    actions_.at(toggle)->setCheckable(true);
  }
  connect(&session_, &Session::view_changed, this, &CommandActions::follow);
  follow();
}

void CommandActions::follow() {
  const View& view = session_.view();
  const auto check = [this](Command command, bool on) {
    if (actions_.at(command)->isChecked() != on) actions_.at(command)->setChecked(on);
  };
  const SceneOptions& options = view.options;
  check(Command::align_absolute, options.alignment == Alignment::absolute);
  check(Command::align_iteration, options.alignment == Alignment::iteration);
  check(Command::align_slot, options.alignment == Alignment::slot);
  check(Command::show_stacked, options.show == Show::stacked);
  check(Command::show_overlay, options.show == Show::overlay);
  check(Command::show_difference, options.show == Show::difference);
  check(Command::colour_kind, options.colouring == Colouring::kind);
  check(Command::colour_microbatch, options.colouring == Colouring::microbatch);
  check(Command::colour_error, options.colouring == Colouring::error);
  check(Command::toggle_arrows, view.arrows);
  check(Command::toggle_curves, view.curves);
  check(Command::toggle_critical, options.critical);
  check(Command::toggle_transfers, options.transfers);
  for (const CommandHelp& help : command_list()) {
    const std::string objection =
        help.command == Command::undo && !session_.history().can_undo() ? "Nothing to undo."
        : help.command == Command::redo && !session_.history().can_redo()
            ? "Nothing to redo."
            : objection_to(help.command, session_.document(), session_.scene(), view);
    QAction& action = *actions_.at(help.command);
    set_usable(action, QString::fromStdString(objection),
               tr("%1 (%2)").arg(menu_text(help.title), readable_keys(help.keys)));
  }
}

bool NavigationKeys::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() != QEvent::ShortcutOverride) return false;
  const bool number = qobject_cast<QAbstractSpinBox*>(watched) != nullptr;
  const bool list = qobject_cast<QAbstractItemView*>(watched) != nullptr ||
                    qobject_cast<QComboBox*>(watched) != nullptr ||
                    qobject_cast<QAbstractSlider*>(watched) != nullptr;
  if (!number && !list) return false;
  const auto* key = static_cast<QKeyEvent*>(event);
  if ((key->modifiers() & ~Qt::KeypadModifier) != 0) return false;
  switch (key->key()) {
    case Qt::Key_Up:
    case Qt::Key_Down:
    case Qt::Key_PageUp:
    case Qt::Key_PageDown:
    case Qt::Key_Left:
    case Qt::Key_Right: event->accept(); return true;
    default: return false;
  }
}

}  // namespace pipesim::gui
