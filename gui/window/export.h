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

// Writes to an already opened file.
void write_png(const QImage& image, OutputFile& file);
// PNG or SVG, by the file's name; `letters` is their height in pixels.
void write_picture(const DrawList& list, int letter_pixels, const std::string& path);
void write_table(const Table& table, const std::string& path);

}  // namespace pipesim::gui
