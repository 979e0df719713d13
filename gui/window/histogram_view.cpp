#include "gui/window/histogram_view.h"

#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <utility>

#include "gui/window/letters.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

constexpr int margin = 8;
constexpr int min_bar = 2;  // pixels, of non-empty bins

QString words(const std::string& text) { return QString::fromStdString(printable(text)); }

int line_height() { return QFontMetrics(letters(label_pixels)).height(); }

}  // namespace

HistogramView::HistogramView(Session& session, QWidget* parent)
    : QWidget(parent), session_(session) {
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Expanding);
  setAccessibleName(tr("Durations"));
}

void HistogramView::set(Histogram histogram) {
  histogram_ = std::move(histogram);
  update();
}

// Between the title and the lengths below; the name of a run is above its bars.
QRect HistogramView::place_of_run(std::size_t run) const {
  const int count = std::max(1, static_cast<int>(histogram_.runs.size()));
  const int top = margin + line_height();
  const int all = std::max(count, height() - top - margin - line_height());
  const int place = static_cast<int>(run);
  const int from = top + all * place / count;
  const int name = count > 1 ? line_height() : 4;
  return {QPoint(margin, from + name),
          QPoint(width() - margin - 1, top + all * (place + 1) / count - 1)};
}

QRect HistogramView::place_of(std::size_t run, std::size_t bin) const {
  const QRect all = place_of_run(run);
  const int bins = static_cast<int>(histogram_.bins());
  const int place = static_cast<int>(bin);
  const int from = all.left() + all.width() * place / bins;
  const int to = all.left() + all.width() * (place + 1) / bins;
  return {QPoint(from, all.top()), QPoint(std::max(from, to - 1), all.bottom())};
}

std::optional<HistogramView::At> HistogramView::at(const QPoint& point) const {
  for (std::size_t run = 0; run < histogram_.runs.size(); ++run) {
    for (std::size_t bin = 0; bin < histogram_.bins(); ++bin) {
      if (place_of(run, bin).contains(point)) return At{run, bin};
    }
  }
  return std::nullopt;
}

void HistogramView::paintEvent(QPaintEvent*) {
  if (histogram_.empty()) return;
  QPainter painter(this);
  painter.setFont(letters(label_pixels));
  const Palette& colours = session_.palette();
  const Palette kinds = gui::palette(session_.theme(), Colouring::kind);
  const QRect inside = rect().adjusted(margin, margin / 2, -margin, -margin / 2);
  const auto write = [&](const QRect& place, Qt::Alignment where, const QString& text, Rgb colour) {
    painter.setPen(QColor::fromRgb(colour));
    painter.drawText(place, static_cast<int>(where),
                     painter.fontMetrics().elidedText(text, Qt::ElideRight, place.width()));
  };
  const QString title =
      tr("%1, %2 in all").arg(words(histogram_.title), words(format_count(histogram_.count())));
  write(inside, Qt::AlignLeft | Qt::AlignTop, title, colours.text);
  const std::int64_t most = histogram_.most();
  for (std::size_t run = 0; run < histogram_.runs.size(); ++run) {
    const QRect all = place_of_run(run);
    if (!histogram_.runs[run].name.empty()) {
      write(QRect(all.left(), all.top() - line_height(), all.width(), line_height()),
            Qt::AlignLeft | Qt::AlignVCenter, words(histogram_.runs[run].name), colours.faint_text);
    }
    for (std::size_t bin = 0; bin < histogram_.bins(); ++bin) {
      const QRect place = place_of(run, bin);
      int bottom = place.bottom() + 1;
      const auto& counts = histogram_.runs[run].bins[bin].counts;
      for (std::size_t shade = 0; shade < counts.size(); ++shade) {
        if (counts[shade] == 0) continue;
        const int high = std::max(min_bar, static_cast<int>(counts[shade] * place.height() / most));
        const int width = std::max(1, place.width() - (place.width() > 3 ? 1 : 0));
        painter.fillRect(QRect(place.left(), std::max(place.top(), bottom - high), width,
                               std::min(high, bottom - place.top())),
                         QColor::fromRgb(kinds.shades[shade]));
        bottom -= high;
      }
    }
    painter.setPen(QColor::fromRgb(colours.grid));
    painter.drawLine(all.left(), all.bottom() + 1, all.right(), all.bottom() + 1);
  }
  write(inside, Qt::AlignLeft | Qt::AlignBottom, words(format_time(histogram_.edges_ns.front())),
        colours.faint_text);
  write(inside, Qt::AlignRight | Qt::AlignBottom,
        words(format_time(histogram_.edges_ns.back() - 1)), colours.faint_text);
  if (histogram_.logarithmic) {
    write(inside, Qt::AlignHCenter | Qt::AlignBottom, tr("logarithmic"), colours.faint_text);
  }
}

bool HistogramView::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto found = at(help->pos());
  if (!found) {
    QToolTip::hideText();
    return true;
  }
  const std::int64_t count = histogram_.runs[found->run].bins[found->bin].count();
  QToolTip::showText(
      help->globalPos(),
      tr("%1 to %2: %3")
          .arg(words(format_time(histogram_.edges_ns[found->bin])),
               words(format_time(histogram_.edges_ns[found->bin + 1])), words(format_count(count))),
      this);
  return true;
}

void HistogramView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  const auto found = at(event->pos());
  if (!found) return;
  const std::vector<Pick>& about = histogram_.runs[found->run].bins[found->bin].about;
  if (!about.empty()) emit chosen(std::vector<Pick>(about));
}

}  // namespace pipesim::gui
