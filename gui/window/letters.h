// The viewer's own fonts, so that a picture is the same on
// every machine.
//
// For use once a QGuiApplication exists, on its thread.
#pragma once

#include <QFont>

#include "gui/layout/layout.h"

namespace pipesim::gui {

// Of timelines, in pixels of a screen that is not fine.
inline constexpr int label_pixels = 11;

// Makes the fonts known; throws a work error where they can't be loaded. More than
// once does no harm.
void load_fonts();

QFont letters(int pixels, bool bold = false);

// What is laid out on: a size in device pixels, `scale` of them a logical one.
Canvas canvas_of(int width, int height, double scale);
// The height of a timeline's labels, in device pixels.
int label_height(double scale);

}  // namespace pipesim::gui
