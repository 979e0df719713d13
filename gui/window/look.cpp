#include "gui/window/look.h"

#include <QApplication>
#include <QPainter>
#include <QPalette>
#include <QProxyStyle>
#include <QStyleOption>

#include "gui/window/letters.h"

namespace pipesim::gui {
namespace {

struct Tones {
  Rgb window, base, other, text, faint, button, edge, highlight, on_highlight, link;
};
constexpr Tones light{0xf3f4f6, 0xffffff, 0xf6f7f9, 0x1b1f24, 0x8a9099,
                      0xf9fafb, 0xb6bcc4, 0x2f6fb5, 0xffffff, 0x1d5fa6};
constexpr Tones dark{0x23262b, 0x1b1d21, 0x212429, 0xe4e7eb, 0x7d858f,
                     0x2e3238, 0x0f1012, 0x3d7fc4, 0xffffff, 0x7db4ee};

// Fusion, with margins around the texts of tables, and no empty header behind the last column.
class Style : public QProxyStyle {
 public:
  Style() : QProxyStyle("Fusion") {}

  void drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                   const QWidget* widget) const override {
    if (element != CE_HeaderEmptyArea) {
      QProxyStyle::drawControl(element, option, painter, widget);
    } else {
      painter->fillRect(option->rect, option->palette.base());
    }
  }

  int pixelMetric(PixelMetric metric, const QStyleOption* option,
                  const QWidget* widget) const override {
    if (metric == PM_FocusFrameHMargin) return 6;  // the margin of table cells
    if (metric == PM_HeaderMargin) return 5;
    return QProxyStyle::pixelMetric(metric, option, widget);
  }
};

}  // namespace

Theme system_theme() {
  return QApplication::palette().color(QPalette::Window).lightness() < 128 ? Theme::dark
                                                                           : Theme::light;
}

void set_look(Theme theme) {
  const Tones& tones = theme == Theme::dark ? dark : light;
  QPalette colours(QColor::fromRgb(tones.button), QColor::fromRgb(tones.window));
  const auto set = [&](QPalette::ColorRole role, Rgb colour) {
    colours.setColor(role, QColor::fromRgb(colour));
  };
  set(QPalette::WindowText, tones.text);
  set(QPalette::Base, tones.base);
  set(QPalette::AlternateBase, tones.other);
  set(QPalette::Text, tones.text);
  set(QPalette::ButtonText, tones.text);
  set(QPalette::BrightText, tones.on_highlight);
  set(QPalette::ToolTipBase, tones.base);
  set(QPalette::ToolTipText, tones.text);
  set(QPalette::PlaceholderText, tones.faint);
  set(QPalette::Highlight, tones.highlight);
  set(QPalette::HighlightedText, tones.on_highlight);
  set(QPalette::Link, tones.link);
  set(QPalette::Mid, tones.edge);
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText}) {
    colours.setColor(QPalette::Disabled, role, QColor::fromRgb(tones.faint));
  }
  QApplication::setStyle(new Style);
  QApplication::setPalette(colours);
  QApplication::setFont(letters(panel_pixels));
}

}  // namespace pipesim::gui
