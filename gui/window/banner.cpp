#include "gui/window/banner.h"

#include <QFrame>
#include <QHBoxLayout>
#include <QLabel>
#include <QToolButton>
#include <QVBoxLayout>

namespace pipesim::gui {
namespace {

constexpr int max_bars = 4;
constexpr const char* look =
    "QFrame#banner { background: #f6dc9a; border-bottom: 1px solid #c79a2a; }"
    "QFrame#banner QLabel, QFrame#banner QToolButton { color: #2a2000; background: transparent; }";

}  // namespace

Banners::Banners(QWidget* parent) : QWidget(parent), column_(new QVBoxLayout(this)) {
  column_->setContentsMargins(0, 0, 0, 0);
  column_->setSpacing(0);
  QSizePolicy policy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
  hide();
}

void Banners::add(const QString& sentence) {
  if (sentences().contains(sentence)) return;
  if (column_->count() >= max_bars) remove(column_->itemAt(0)->widget());
  auto* bar = new QFrame(this);
  bar->setObjectName("banner");
  bar->setStyleSheet(look);
  auto* words = new QLabel(sentence, bar);
  words->setObjectName("sentence");
  words->setTextFormat(Qt::PlainText);
  words->setWordWrap(true);
  words->setTextInteractionFlags(Qt::TextSelectableByMouse);
  QSizePolicy policy(QSizePolicy::Ignored, QSizePolicy::Minimum);
  policy.setHeightForWidth(true);
  words->setSizePolicy(policy);
  auto* close = new QToolButton(bar);
  close->setText(QString::fromUtf8("✕"));
  close->setToolTip(tr("Close"));
  close->setAutoRaise(true);
  connect(close, &QToolButton::clicked, this, [this, bar] { remove(bar); });
  auto* row = new QHBoxLayout(bar);
  row->setContentsMargins(10, 3, 4, 3);
  row->addWidget(words, 1);
  row->addWidget(close, 0, Qt::AlignTop);
  column_->addWidget(bar);
  show();
}

void Banners::remove(QWidget* bar) {
  column_->removeWidget(bar);
  bar->hide();
  bar->deleteLater();
  if (column_->count() == 0) hide();
}

void Banners::clear() {
  while (column_->count() > 0) remove(column_->itemAt(0)->widget());
}

QStringList Banners::sentences() const {
  QStringList all;
  for (int i = 0; i < column_->count(); ++i) {
    all += column_->itemAt(i)->widget()->findChild<QLabel*>("sentence")->text();
  }
  return all;
}

}  // namespace pipesim::gui
