// The viewer's own fonts, so that a picture is the same on
// every machine.
//
// For use once a QGuiApplication exists, on its thread.
#pragma once

#include <QFont>

#include "gui/layout/layout.h"

namespace pipesim::gui {

// Letters of timelines, in pixels of a screen with a scale of 1.
inline constexpr int label_pixels = 11;

// Registers the fonts; throws a work error if they can't be loaded. May be called more than once.
void load_fonts();

QFont letters(int pixels, bool bold = false);

// The canvas of a layout: a size in device pixels, `scale` of them per logical pixel.
Canvas canvas_of(int width, int height, double scale);
// The height of a timeline's labels, in device pixels.
int label_height(double scale);

}  // namespace pipesim::gui
