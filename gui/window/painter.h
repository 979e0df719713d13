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
  // `letters`: their height in pixels.
  explicit Painter(int letter_pixels);

  // Resizes `image` to the list's size, in the format RGB32, with a pixel ratio of 1, and paints
  // all of it.
  void paint(const DrawList& list, QImage& image);

 private:
  void paint_text(QPainter& painter, const DrawList::Text& text);
  // The text laid out, shortened if it is wider.
  const QStaticText& laid_out(const DrawList::Text& text);

  static constexpr int max_kept = 20'000;

  int pixels_;
  QHash<QByteArray, QStaticText> kept_;  // by boldness, text and, if shortened, width
};

// Paints once, on a new image.
QImage painted(const DrawList& list, int letter_pixels);

}  // namespace pipesim::gui
