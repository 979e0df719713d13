#include "gui/window/find_bar.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QSignalBlocker>
#include <QToolButton>
#include <algorithm>

namespace pipesim::gui {

LineBar::LineBar(const QString& name, const QString& hint, QWidget* parent)
    : QWidget(parent), line_(new QLineEdit(this)), answer_(new QLabel(this)) {
  line_->setPlaceholderText(hint);
  line_->setClearButtonEnabled(false);
  line_->setMaximumWidth(220);
  line_->installEventFilter(this);
  line_->setAccessibleName(name);
  answer_->setTextFormat(Qt::PlainText);
  answer_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  auto* close = new QToolButton(this);
  close->setText(QString::fromUtf8("✕"));
  close->setAutoRaise(true);
  close->setToolTip(tr("Close (Esc)"));
  connect(close, &QToolButton::clicked, this, [this] { leave(); });
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(8, 3, 4, 3);
  row->addWidget(new QLabel(name, this));
  row->addWidget(line_, 2);
  row->addWidget(answer_, 3);
  row->addWidget(close);
  hide();
}

void LineBar::open() {
  show();
  line_->setFocus(Qt::ShortcutFocusReason);
  line_->selectAll();
}

void LineBar::leave() {
  hide();
  emit closed();
}

bool LineBar::eventFilter(QObject* watched, QEvent* event) {
  if (watched == line_ && event->type() == QEvent::ShortcutOverride &&
      static_cast<QKeyEvent*>(event)->key() == Qt::Key_Escape) {
    event->accept();
    return true;
  }
  if (watched == line_ && event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Escape) {
      leave();
      return true;
    }
    if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
      step((key->modifiers() & Qt::ShiftModifier) != 0);
      return true;
    }
  }
  return QWidget::eventFilter(watched, event);
}

FindBar::FindBar(Session& session, QWidget* parent)
    : LineBar(tr("Search"), tr("2F0, stage 2, mb 3, bubble, late, ..."), parent),
      session_(session) {
  connect(&line(), &QLineEdit::textChanged, this, &FindBar::find);
  connect(&session_, &Session::document_changed, this, [this] {
    if (isVisible()) find();
  });
}

void FindBar::find() {
  found_ = {};
  at_ = 0;
  const QString text = line().text().trimmed();
  if (!text.isEmpty()) {
    found_ = search(session_.document(), session_.scene(), text.toStdString());
  }
  say(QString::fromStdString(found_.text));
  View next = session_.view();
  next.emphasised = found_.picks;
  session_.change(std::move(next), "search");
}

void FindBar::step(bool back) {
  const std::size_t all = found_.picks.size();
  if (all == 0) return;
  if (at_ == 0) {
    at_ = back ? all : 1;
  } else {
    at_ = back ? (at_ + all - 2) % all + 1 : at_ % all + 1;
  }
  session_.pick(found_.picks[at_ - 1]);
  say(tr("%1 of %2").arg(at_).arg(QString::fromStdString(found_.text)));
}

void FindBar::leave() {
  View next = session_.view();
  next.emphasised.clear();
  session_.change(std::move(next), "search");
  LineBar::leave();
}

FilterBar::FilterBar(Session& session, QWidget* parent)
    : LineBar(tr("Tracks"), tr("rank 3, stream, ..."), parent), session_(session) {
  connect(&line(), &QLineEdit::textChanged, this, &FilterBar::filter);
  connect(&session_, &Session::view_changed, this, &FilterBar::follow);
}

void FilterBar::filter(const QString& text) {
  View next = session_.view();
  next.filter = text.trimmed().toStdString();
  next.scroll = 0;
  session_.change(std::move(next), "filter");
}

void FilterBar::follow() {
  const std::string& filter = session_.view().filter;
  if (line().text().trimmed().toStdString() != filter) {
    const QSignalBlocker blocker(line());
    line().setText(QString::fromStdString(filter));
    if (!filter.empty()) show();
  }
  const bool none = std::ranges::none_of(session_.scene().groups,
                                         [&](const Group& group) { return passes(group, filter); });
  say(none && !filter.empty() ? tr("no track has that name") : QString());
}

void FilterBar::leave() {
  line().clear();
  LineBar::leave();
}

}  // namespace pipesim::gui
