// Paints a draw list on an image: the only way from the core to pixels.
//
// One owner, on the thread of the QGuiApplication.
#pragma once

#include <QHash>
#include <QImage>
#include <QStaticText>
#include <vector>

#include "traces/draw/draw_list.h"

class QPainter;

namespace pipesim::gui {

class Painter {
 public:
  // Letters so many pixels high.
  explicit Painter(int letter_pixels);

  // Makes `image` as large as the list says, in the format RGB32, with a pixel ratio of 1,
  // and paints all of it.
  void paint(const DrawList& list, QImage& image);

 private:
  void paint_text(QPainter& painter, const DrawList::Text& text);
  // The text laid out, shortened where it is wider.
  const QStaticText& laid_out(const DrawList::Text& text);

  static constexpr int most_kept = 20'000;

  int pixels_;
  QHash<QByteArray, QStaticText> kept_;  // by boldness, text and, where shortened, width
};

// The same once, on a new image.
QImage painted(const DrawList& list, int letter_pixels);

}  // namespace pipesim::gui
