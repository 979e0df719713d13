// Exports the view as files. Files are written whole or not at all; errors are thrown
// as Error.
//
// On the thread of the QApplication.
#pragma once

#include <QImage>
#include <string>

#include "gui/tables/tables.h"
#include "traces/base/files.h"
#include "traces/draw/draw_list.h"

namespace pipesim::gui {

// Into a file that was opened for it.
void write_png(const QImage& image, OutputFile& file);
// By the file's name, as PNG or SVG; letters so many pixels high.
void write_picture(const DrawList& list, int letter_pixels, const std::string& path);
void write_table(const Table& table, const std::string& path);

}  // namespace pipesim::gui
