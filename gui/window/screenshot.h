// A picture of the whole window, without a user.
//
// On the thread of the QApplication.
#pragma once

#include <QSize>
#include <QStringList>
#include <string>
#include <string_view>

#include "gui/window/main_window.h"

namespace pipesim::gui {

// "1600x900", as logical pixels; throws an input error where it is no size or one that
// no screen has.
QSize parse_size(std::string_view text, std::string_view where);

// Throws an input error where so many pixels for one make a picture too large.
void check_pixels(QSize size, int scale);

// Throws an input error where the file's name is not one of a PNG file.
void check_screenshot_name(const std::string& path);

// Shows a window of that size with these traces open, waits until all is there, and
// writes it. Throws an Error where a trace can't be opened or the file not be written.
void take_screenshot(const WindowOptions& options, const QStringList& traces, QSize size,
                     const std::string& path);

}  // namespace pipesim::gui
