#include "gui/window/painter.h"

#include <QFontMetrics>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <cstring>

#include "gui/window/letters.h"

namespace pipesim::gui {
namespace {

constexpr Rgb opaque = 0xff000000U;

QColor colour_of(Rgb colour, int alpha = 255) {
  QColor result = QColor::fromRgb(colour);
  result.setAlpha(alpha);
  return result;
}

// Pixels of an image, written without a painter.
class Pixels {
 public:
  explicit Pixels(QImage& image)
      : bits_(reinterpret_cast<Rgb*>(image.bits())),
        stride_(image.bytesPerLine() / 4),
        width_(image.width()),
        height_(image.height()) {}

  void fill(int x, int y, int width, int height, Rgb colour) {
    const int to_x = std::min(x + width, width_);
    const int from_y = std::max(y, 0);
    const int to_y = std::min(y + height, height_);
    x = std::max(x, 0);
    if (x >= to_x || from_y >= to_y) return;
    std::fill(at(x, from_y), at(to_x, from_y), colour | opaque);
    repeat(x, to_x, from_y, to_y);
  }

  void fill_mixed(int x, int y, int width, int height, Rgb colour, int alpha) {
    const int to_x = std::min(x + width, width_);
    const int to_y = std::min(y + height, height_);
    for (int row = std::max(y, 0); row < to_y; ++row) {
      Rgb* pixel = at(std::max(x, 0), row);
      for (int column = std::max(x, 0); column < to_x; ++column, ++pixel) {
        *pixel = mixed(*pixel, colour, alpha);
      }
    }
  }

  void strip(const DrawList::Strip& strip) {
    const int skipped = std::max(-strip.x, 0);
    const int from_x = strip.x + skipped;
    const int to_x = std::min(strip.x + static_cast<int>(strip.columns.size()), width_);
    const int from_y = std::max(strip.y, 0);
    const int to_y = std::min(strip.y + strip.height, height_);
    if (from_x >= to_x || from_y >= to_y) return;
    Rgb* to = at(from_x, from_y);
    const Rgb* from = strip.columns.data() + skipped;
    for (int i = 0; i < to_x - from_x; ++i) to[i] = from[i] | opaque;
    repeat(from_x, to_x, from_y, to_y);
    for (const auto& part : strip.parts) {
      fill(strip.x + part.column, strip.y + part.top, part.width, strip.height - part.top,
           part.colour);
    }
  }

  void area(const DrawList::Area& area) {
    int last = area.height;
    for (int i = 0; i < static_cast<int>(area.tops.size()); ++i) {
      const int x = area.x + i;
      const int top = std::clamp<int>(area.tops[i], 0, area.height);
      if (x >= 0 && x < width_ && top < area.height) {
        if (area.filled) column(x, area.y + top, area.y + area.height, area.fill);
        // The line connects this top with the last one.
        const int before = last < area.height ? last : top;
        column(x, area.y + std::min(top, before), area.y + std::max(top, before) + 1, area.line);
      }
      last = top;
    }
  }

 private:
  static Rgb mixed(Rgb below, Rgb above, int alpha) {
    const auto channel = [&](int shift) {
      const int low = static_cast<int>((below >> shift) & 0xff);
      const int high = static_cast<int>((above >> shift) & 0xff);
      return static_cast<Rgb>((low * (255 - alpha) + high * alpha + 127) / 255) << shift;
    };
    return opaque | channel(16) | channel(8) | channel(0);
  }

  void column(int x, int from_y, int to_y, Rgb colour) {
    from_y = std::max(from_y, 0);
    to_y = std::min(to_y, height_);
    for (int y = from_y; y < to_y; ++y) *at(x, y) = colour | opaque;
  }

  // Copies the first row of pixels to all others.
  void repeat(int from_x, int to_x, int from_y, int to_y) {
    const auto bytes = static_cast<std::size_t>(to_x - from_x) * sizeof(Rgb);
    for (int y = from_y + 1; y < to_y; ++y) {
      std::memcpy(at(from_x, y), at(from_x, from_y), bytes);
    }
  }

  Rgb* at(int x, int y) { return bits_ + static_cast<std::ptrdiff_t>(y) * stride_ + x; }

  Rgb* bits_;
  std::ptrdiff_t stride_;
  int width_, height_;
};

void paint_boxes(Pixels& pixels, const std::vector<DrawList::Box>& boxes) {
  for (const DrawList::Box& box : boxes) {
    if (box.filled && box.opacity >= 255) {
      pixels.fill(box.x, box.y, box.width, box.height, box.fill);
    } else if (box.filled) {
      pixels.fill_mixed(box.x, box.y, box.width, box.height, box.fill, box.opacity);
    }
    if (!box.framed || box.width <= 0 || box.height <= 0) continue;
    pixels.fill(box.x, box.y, box.width, 1, box.frame);
    pixels.fill(box.x, box.y + box.height - 1, box.width, 1, box.frame);
    pixels.fill(box.x, box.y, 1, box.height, box.frame);
    pixels.fill(box.x + box.width - 1, box.y, 1, box.height, box.frame);
  }
}

void paint_head(QPainter& painter, const DrawList::Line& line, double length) {
  const QPointF tip(line.x2 + 0.5, line.y2 + 0.5);
  const QPointF way(line.x2 - line.x1, line.y2 - line.y1);
  const double whole = std::hypot(way.x(), way.y());
  if (whole < 1) return;
  const QPointF back = way / whole * length;
  const QPointF side(-back.y() * 0.45, back.x() * 0.45);
  const QPointF head[] = {tip, tip - back + side, tip - back - side};
  painter.setPen(Qt::NoPen);
  painter.setBrush(colour_of(line.colour));
  painter.drawConvexPolygon(head, 3);
}

bool is_straight(const DrawList::Line& line) {
  return (line.x1 == line.x2 || line.y1 == line.y2) && !line.dashed && !line.arrow;
}

void paint_straight(Pixels& pixels, const DrawList::Line& line) {
  const int half = line.width / 2;
  const int x = std::min(line.x1, line.x2);
  const int y = std::min(line.y1, line.y2);
  const int across = std::abs(line.x2 - line.x1) + 1;
  const int down = std::abs(line.y2 - line.y1) + 1;
  if (line.y1 == line.y2) {
    pixels.fill(x, y - half, across, line.width, line.colour);
  } else {
    pixels.fill(x - half, y, line.width, down, line.colour);
  }
}

void paint_line(QPainter& painter, const DrawList::Line& line) {
  QPen pen(colour_of(line.colour), line.width);
  pen.setCapStyle(Qt::FlatCap);
  if (line.dashed) pen.setDashPattern({4, 3});
  const bool slanted = line.x1 != line.x2 && line.y1 != line.y2;
  painter.setRenderHint(QPainter::Antialiasing, slanted);
  painter.setPen(pen);
  if (slanted) {
    painter.drawLine(QPointF(line.x1 + 0.5, line.y1 + 0.5), QPointF(line.x2 + 0.5, line.y2 + 0.5));
  } else {
    painter.drawLine(line.x1, line.y1, line.x2, line.y2);
  }
  if (!line.arrow) return;
  painter.setRenderHint(QPainter::Antialiasing, true);
  paint_head(painter, line, 3 + 2 * line.width);
}

}  // namespace

Painter::Painter(int letter_pixels) : pixels_(letter_pixels) {}

const QStaticText& Painter::laid_out(const DrawList::Text& text) {
  QByteArray key(text.bold ? "b" : "r");
  key += QByteArray::fromRawData(text.text.data(), static_cast<int>(text.text.size()));
  if (kept_.size() >= max_kept) kept_.clear();
  auto found = kept_.find(key);
  const auto lay_out = [&](const QString& words) {
    QStaticText result(words);
    result.setTextFormat(Qt::PlainText);
    result.setPerformanceHint(QStaticText::AggressiveCaching);
    result.prepare({}, letters(pixels_, text.bold));
    return result;
  };
  if (found == kept_.end()) {
    found = kept_.insert(key, lay_out(QString::fromUtf8(text.text.c_str())));
  }
  if (found->size().width() <= text.width) return *found;
  const QString whole = found->text();
  key += '\0';
  key += QByteArray::number(text.width);
  found = kept_.find(key);
  if (found != kept_.end()) return *found;
  const QFontMetrics metrics(letters(pixels_, text.bold));
  return *kept_.insert(key, lay_out(metrics.elidedText(whole, Qt::ElideRight, text.width)));
}

void Painter::paint_text(QPainter& painter, const DrawList::Text& text) {
  if (text.width <= 0 || text.text.empty()) return;
  const QStaticText& words = laid_out(text);
  const QSizeF size = words.size();
  double x = text.x;
  if (text.align == DrawList::Align::centre) x += (text.width - size.width()) / 2;
  if (text.align == DrawList::Align::right) x += text.width - size.width();
  const double y = text.y + (text.height - size.height()) / 2;
  painter.setPen(colour_of(text.colour));
  painter.drawStaticText(QPointF(std::round(x), std::round(y)), words);
}

void Painter::paint(const DrawList& list, QImage& image) {
  const QSize size(std::max(list.width, 1), std::max(list.height, 1));
  if (image.size() != size || image.format() != QImage::Format_RGB32) {
    image = QImage(size, QImage::Format_RGB32);
  }
  image.setDevicePixelRatio(1);  // coordinates are its pixels
  Pixels pixels(image);
  pixels.fill(0, 0, size.width(), size.height(), list.background);
  paint_boxes(pixels, list.grounds);
  for (const DrawList::Strip& strip : list.strips) pixels.strip(strip);
  for (const DrawList::Area& area : list.areas) pixels.area(area);
  paint_boxes(pixels, list.boxes);

  QPainter painter(&image);
  // Groups texts by weight: a change of font costs as much as a text.
  const auto paint_texts = [&](const std::vector<DrawList::Text>& texts) {
    for (const bool bold : {false, true}) {
      painter.setFont(letters(pixels_, bold));
      for (const DrawList::Text& text : texts) {
        if (text.bold == bold) paint_text(painter, text);
      }
    }
  };
  for (const DrawList::Line& line : list.lines) {
    if (is_straight(line)) {
      paint_straight(pixels, line);
    } else {
      paint_line(painter, line);
    }
  }
  paint_texts(list.texts);
  paint_boxes(pixels, list.covers);
  paint_texts(list.cover_texts);
}

QImage painted(const DrawList& list, int letter_pixels) {
  QImage image;
  Painter(letter_pixels).paint(list, image);
  return image;
}

}  // namespace pipesim::gui
