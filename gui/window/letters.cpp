#include "gui/window/letters.h"

#include <QFontDatabase>
#include <QFontMetrics>
#include <algorithm>
#include <cmath>

#include "traces/base/error.h"

// Resources of a static library must be referenced, outside of any namespace.
static void load_resources() { Q_INIT_RESOURCE(window); }

namespace pipesim::gui {

void load_fonts() {
  load_resources();
  if (QFontDatabase().hasFamily("Pipeview Sans")) return;
  for (const char* file : {":/fonts/regular.ttf", ":/fonts/bold.ttf"}) {
    if (QFontDatabase::addApplicationFont(file) < 0) {
      throw work_error(std::string(file) + ": the font can't be loaded");
    }
  }
}

QFont letters(int pixels, bool bold) {
  QFont font("Pipeview Sans");
  font.setPixelSize(pixels);
  font.setBold(bold);
  font.setHintingPreference(QFont::PreferVerticalHinting);
  font.setStyleStrategy(QFont::PreferAntialias);
  return font;
}

int label_height(double scale) { return static_cast<int>(std::lround(label_pixels * scale)); }

Canvas canvas_of(int width, int height, double scale) {
  const QFontMetrics metrics(letters(label_height(scale)));
  Canvas canvas;
  canvas.width = width;
  canvas.height = height;
  canvas.scale = scale;
  canvas.text_height = metrics.height();
  // A label such as 12W3 has at most one letter wider than its digits.
  canvas.char_width = 1;
  for (const char letter : {'0', '8', 'F', 'B'}) {
    canvas.char_width = std::max(canvas.char_width, metrics.horizontalAdvance(letter));
  }
  return canvas;
}

}  // namespace pipesim::gui
