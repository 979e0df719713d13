#include "gui/window/summary.h"

#include <QVBoxLayout>

namespace pipesim::gui {
namespace {

QLabel* title_of(const QString& text, QWidget* parent) {
  auto* label = new QLabel(text, parent);
  label->setContentsMargins(8, 8, 8, 2);
  QFont font = label->font();
  font.setBold(true);
  label->setFont(font);
  return label;
}

// The non-zero terms, and the sum.
Table shown_gap(const Document& document) {
  Table table = gap_table(document);
  const std::size_t difference = 1;
  const auto makes_none = [&](const Table::Row& row) {
    return row.values[difference] == 0 && row.cells.front() != "total";
  };
  std::erase_if(table.rows, makes_none);
  return table;
}

}  // namespace

Summary::Summary(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      verdict_(title_of({}, this)),
      gap_title_(title_of(tr("Where the difference comes from"), this)),
      gap_(new TablePanel(
          session, [](const Session& s) { return shown_gap(s.document()); },
          TablePanel::DependsOn::document, this)),
      causes_title_(title_of(tr("Root causes (click: show them)"), this)),
      causes_(new TablePanel(
          session, [](const Session& s) { return cause_table(s.document()); },
          TablePanel::DependsOn::document, this)),
      bubbles_(new TablePanel(
          session, [](const Session& s) { return bubble_table(s.document()); },
          TablePanel::DependsOn::document, this)) {
  verdict_->setWordWrap(true);
  verdict_->setTextFormat(Qt::PlainText);
  verdict_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  verdict_->setObjectName("verdict");
  QFont larger = verdict_->font();
  larger.setPixelSize(14);
  verdict_->setFont(larger);
  gap_->fit_height();
  gap_->draw_bars("difference");
  gap_->show_columns({"term", "difference"});
  causes_->wrap_texts();
  causes_->draw_bars("effect");
  causes_->show_columns({"effect", "why"});
  bubbles_->show_columns({"rank", "run", "busy", "bubble"});
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(verdict_);
  column->addWidget(gap_title_);
  column->addWidget(gap_);
  column->addWidget(causes_title_);
  column->addWidget(causes_, 1);
  column->addWidget(bubbles_, 1);
  column->addStretch(0);
  connect(&session_, &Session::document_changed, this, &Summary::follow);
  follow();
}

void Summary::follow() {
  const Document& document = session_.document();
  const bool compared = document.pair != nullptr;
  verdict_->setText(document.traces.empty() ? tr("Nothing is open yet.")
                                            : QString::fromStdString(gui::verdict(document)));
  gap_title_->setVisible(compared);
  gap_->setVisible(compared);
  causes_title_->setVisible(compared);
  causes_->setVisible(compared);
  bool has_runs = false;
  for (const auto& trace : document.traces) has_runs |= trace->run || trace->input;
  bubbles_->setVisible(!compared && has_runs);
}

}  // namespace pipesim::gui
