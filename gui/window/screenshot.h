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

// "1600x900", in logical pixels; throws an input error if it is not a size or out of range.
QSize parse_size(std::string_view text, std::string_view where);

// Throws an input error if that scale makes the picture too large.
void check_pixels(QSize size, int scale);

// Throws an input error unless the name is a PNG file's.
void check_screenshot_name(const std::string& path);

// Shows a window of that size with these traces open, waits until everything is loaded, and writes
// it. Throws an Error if a trace can't be opened or the file can't be written.
void take_screenshot(const WindowOptions& options, const QStringList& traces, QSize size,
                     const std::string& path);

}  // namespace pipesim::gui
