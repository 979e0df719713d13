#include "gui/window/screenshot.h"

#include <QApplication>
#include <QEventLoop>
#include <QPixmap>

#include "gui/window/export.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::gui {

QSize parse_size(std::string_view text, std::string_view where) {
  constexpr int least = 480;
  constexpr int most = 8192;
  const std::vector<std::string_view> parts = split(text, 'x');
  const std::string place(where);
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
    throw input_error(place + ": " + quote(text) + " is not a size; give one such as 1600x900");
  }
  const QSize size(parse_count(parts[0], where), parse_count(parts[1], where));
  if (size.width() < least || size.height() < least || size.width() > most ||
      size.height() > most) {
    throw input_error(place + ": " + quote(text) +
                      " is too small or too large; each side must be 480 to 8192");
  }
  return size;
}

void check_pixels(QSize size, int scale) {
  constexpr std::int64_t most = 100'000'000;
  const std::int64_t pixels = std::int64_t{scale} * size.width() * scale * size.height();
  if (pixels > most) {
    throw input_error(
        "--size, --scale: " + format_count(pixels) +
        " pixels are more than a picture may have, 100 million; choose less of one or the other");
  }
}

void check_screenshot_name(const std::string& path) {
  if (!path.ends_with(".png")) {
    throw input_error("--screenshot: " + quote(path) +
                      ": screenshots are written as PNG; name it .png");
  }
}

void take_screenshot(const WindowOptions& options, const QStringList& traces, QSize size,
                     const std::string& path) {
  check_screenshot_name(path);
  OutputFile file(path);  // a file that can't be written fails before the work
  MainWindow window(options);
  std::string failure;
  QObject::connect(&window, &MainWindow::problem, &window, [&](const QString& sentence) {
    if (failure.empty()) failure = sentence.toStdString();
  });
  window.resize(size);
  window.setFixedSize(size);
  window.show();
  if (!traces.isEmpty()) {
    QEventLoop loop;
    QObject::connect(&window, &MainWindow::idle, &loop, &QEventLoop::quit);
    window.open(traces, options.profile);
    loop.exec();
  }
  if (!failure.empty()) throw input_error(failure);
  const std::vector<std::string>& not_opened = window.session().document().not_opened;
  if (!not_opened.empty()) throw input_error(not_opened.front());
  window.settle();
  write_png(window.grab().toImage(), file);
}

}  // namespace pipesim::gui
