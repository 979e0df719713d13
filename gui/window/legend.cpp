#include "gui/window/legend.h"

#include <QFontMetrics>
#include <QPainter>
#include <algorithm>
#include <array>

#include "gui/window/letters.h"

namespace pipesim::gui {
namespace {

constexpr int swatch = 11;
constexpr std::array<const char*, 7> kinds{"F forward",   "I input gradient", "W weight gradient",
                                           "B backward",  "transfer forward", "transfer backward",
                                           "closing work"};
constexpr std::array<const char*, 4> bubbles{"warm-up", "steady", "drain", "p2p"};

// Shades that any work lane of the scene has.
std::array<bool, shade_count> used(const Scene& scene) {
  std::array<bool, shade_count> result{};
  for (const Group& group : scene.groups) {
    for (const Lane& lane : group.lanes) {
      for (const BarRow& row : lane.rows) {
        for (Shade shade = 0; shade < shade_count; ++shade) result[shade] |= row.has(shade);
      }
    }
  }
  return result;
}

}  // namespace

Legend::Legend(Session& session, QWidget* parent) : QWidget(parent), session_(session) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setAccessibleName(tr("Legend"));
  connect(&session_, &Session::view_changed, this, [this] { update(); });
}

std::vector<Legend::Entry> Legend::entries() const {
  const auto& shades = session_.palette().shades;
  const auto has = used(session_.scene());
  const bool has_runs = std::ranges::any_of(session_.document().traces,
                                            [](const auto& t) { return t->run.has_value(); });
  std::vector<Entry> all;
  if (!has_runs) return all;
  switch (session_.view().options.colouring) {
    case Colouring::kind:
      for (Shade kind = 0; kind < kinds.size(); ++kind) {
        if (has[kind]) all.push_back({{shades[kind]}, tr(kinds[kind])});
      }
      break;
    case Colouring::microbatch:
      all.push_back({{shades.begin(), shades.begin() + 8}, tr("microbatch 0 to 7, and again")});
      break;
    case Colouring::error:
      all.push_back({{shades.begin(), shades.begin() + 7},
                     tr("faster, as predicted, slower than predicted")});
      if (has[7]) all.push_back({{shades[7]}, tr("in one run only")});
      break;
  }
  std::vector<Rgb> idle;
  QString words;
  for (Shade i = 0; i < bubbles.size(); ++i) {
    if (!has[first_bubble_shade + i]) continue;
    idle.push_back(shades[first_bubble_shade + i]);
    words += (words.isEmpty() ? "" : ", ") + tr(bubbles[i]);
  }
  if (!idle.empty()) all.push_back({idle, tr("bubble: %1").arg(words)});
  if (session_.view().critical) all.push_back({{shades[critical_shade]}, tr("critical path")});
  return all;
}

void Legend::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setFont(letters(label_pixels));
  const QFontMetrics metrics = painter.fontMetrics();
  const int y = (height() - swatch) / 2;
  int x = 8;
  for (const Entry& entry : entries()) {
    const int across = swatch * static_cast<int>(entry.colours.size());
    const int words = metrics.horizontalAdvance(entry.text);
    if (x + across + 5 + words > width()) break;
    int at = x;
    for (const Rgb colour : entry.colours) {
      painter.fillRect(at, y, swatch, swatch, QColor::fromRgb(colour));
      at += swatch;
    }
    painter.setPen(QColor::fromRgb(session_.palette().faint_text));
    painter.drawRect(x, y, across - 1, swatch - 1);
    painter.setPen(QColor::fromRgb(session_.palette().text));
    painter.drawText(QRect(x + across + 5, 0, words + 2, height()),
                     Qt::AlignLeft | Qt::AlignVCenter, entry.text);
    x += across + 5 + words + 16;
  }
}

}  // namespace pipesim::gui
