#include "gui/window/hover_card.h"

#include <QFontMetrics>
#include <QPainter>
#include <algorithm>
#include <numeric>
#include <utility>

#include "gui/tables/tables.h"
#include "gui/window/letters.h"

namespace pipesim::gui {
namespace {

constexpr int pad = 8;
constexpr int gap = 14;
constexpr std::size_t max_rows = 9;
constexpr int min_column = 30;

// Columns as wide as their texts; if there is not enough room, the widest shrink.
std::vector<int> fitting(std::vector<int> widths, int most) {
  const auto across = [&] { return std::accumulate(widths.begin(), widths.end(), 0); };
  while (across() > most) {
    int& widest = *std::ranges::max_element(widths);
    if (widest <= min_column) break;
    int second = min_column;
    for (const int width : widths) {
      if (width < widest) second = std::max(second, width);
    }
    widest = std::max(second, widest - (across() - most));
  }
  return widths;
}

}  // namespace

HoverCard::HoverCard(QWidget* parent) : QWidget(parent) {
  setAttribute(Qt::WA_TransparentForMouseEvents);
  setFocusPolicy(Qt::NoFocus);
  hide();
}

void HoverCard::fill(const Session& session, const Hit& hit) {
  if (shown_ == hit.pick) return;
  shown_ = hit.pick;
  const Table table = detail_table(session.document(), session.scene(), *hit.pick);
  title_ = QString::fromStdString(table.title);
  sentence_ = QString::fromStdString(table.note);
  rows_.clear();
  if (table.columns.size() > 2) {
    std::vector<QString> head;
    for (const Table::Column& column : table.columns) {
      head.push_back(head.empty() ? QString() : QString::fromStdString(column.name));
    }
    rows_.push_back(std::move(head));
  }
  for (const Table::Row& row : table.rows) {
    if (rows_.size() >= max_rows) break;
    std::vector<QString> cells;
    for (const std::string& cell : row.cells) cells.push_back(QString::fromStdString(cell));
    rows_.push_back(std::move(cells));
  }
}

void HoverCard::show_at(const QPoint& position, const Session& session, const Hit& hit) {
  fill(session, hit);
  palette_ = session.palette();
  const QFontMetrics metrics(letters(label_pixels));
  const QFontMetrics bold(letters(label_pixels, true));
  widths_.clear();
  for (const auto& row : rows_) {
    widths_.resize(std::max(widths_.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths_[i] = std::max(widths_[i], metrics.horizontalAdvance(row[i]));
    }
  }
  const QSize room = parentWidget()->size();
  const int gaps = gap * std::max(0, static_cast<int>(widths_.size()) - 1);
  widths_ = fitting(std::move(widths_), room.width() - 2 * pad - gaps);
  const int across = std::accumulate(widths_.begin(), widths_.end(), gaps);
  const int widest =
      std::max({across, bold.horizontalAdvance(title_), metrics.horizontalAdvance(sentence_)});
  const int width = std::min(widest + 2 * pad, room.width());
  const int heads = (title_.isEmpty() ? 0 : 1) + (sentence_.isEmpty() ? 0 : 1);
  const int height = (static_cast<int>(rows_.size()) + heads) * metrics.lineSpacing() + 2 * pad;
  resize(width, height);
  // Below and to the right of the pointer, or wherever there is room.
  int x = position.x() + 14;
  int y = position.y() + 18;
  if (x + width > room.width()) x = position.x() - 10 - width;
  if (y + height > room.height()) y = position.y() - 10 - height;
  move(std::clamp(x, 0, std::max(0, room.width() - width)),
       std::clamp(y, 0, std::max(0, room.height() - height)));
  show();
  raise();
  update();
}

QString HoverCard::text() const {
  QString all = title_;
  if (!sentence_.isEmpty()) all += '\n' + sentence_;
  for (const auto& row : rows_) {
    all += '\n';
    for (std::size_t i = 0; i < row.size(); ++i) all += (i > 0 ? "\t" : "") + row[i];
  }
  return all;
}

void HoverCard::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setPen(QColor::fromRgb(palette_.grid));
  painter.setBrush(QColor::fromRgb(palette_.background));
  painter.drawRect(rect().adjusted(0, 0, -1, -1));
  const QFontMetrics metrics(letters(label_pixels));
  int y = pad;
  // elidedText() also cuts text of exactly the available width, since it rounds differently.
  const auto draw = [&](const QString& words, int x, int width) {
    const QFontMetrics own(painter.font());
    const bool fits = own.horizontalAdvance(words) <= width;
    painter.drawText(x, y + metrics.ascent(),
                     fits ? words : own.elidedText(words, Qt::ElideRight, width));
  };
  if (!title_.isEmpty()) {
    painter.setFont(letters(label_pixels, true));
    painter.setPen(QColor::fromRgb(palette_.text));
    draw(title_, pad, width() - 2 * pad);
    y += metrics.lineSpacing();
  }
  painter.setFont(letters(label_pixels));
  if (!sentence_.isEmpty()) {
    painter.setPen(QColor::fromRgb(palette_.faint_text));
    draw(sentence_, pad, width() - 2 * pad);
    y += metrics.lineSpacing();
  }
  for (const auto& row : rows_) {
    int x = pad;
    for (std::size_t i = 0; i < row.size(); ++i) {
      painter.setPen(QColor::fromRgb(i == 0 ? palette_.faint_text : palette_.text));
      draw(row[i], x, widths_[i]);
      x += widths_[i] + gap;
    }
    y += metrics.lineSpacing();
  }
}

}  // namespace pipesim::gui
