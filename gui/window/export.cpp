#include "gui/window/export.h"

#include <QBuffer>

#include "gui/window/painter.h"
#include "traces/base/error.h"
#include "traces/base/files.h"

namespace pipesim::gui {

void write_png(const QImage& image, OutputFile& file) {
  QByteArray bytes;
  QBuffer buffer(&bytes);
  if (image.isNull() || !buffer.open(QIODevice::WriteOnly) || !image.save(&buffer, "PNG")) {
    throw work_error(file.path() + ": the picture can't be made; try a smaller size");
  }
  file.write({bytes.constData(), static_cast<std::size_t>(bytes.size())});
  file.commit();
}

void write_picture(const DrawList& list, int letter_pixels, const std::string& path) {
  if (path.ends_with(".svg")) {
    write_file(path, to_svg(list, letter_pixels));
  } else if (path.ends_with(".png")) {
    OutputFile file(path);
    write_png(painted(list, letter_pixels), file);
  } else {
    throw input_error(path + ": pictures are written as PNG or SVG; name it .png or .svg");
  }
}

void write_table(const Table& table, const std::string& path) { write_file(path, to_csv(table)); }

}  // namespace pipesim::gui
