#include "traces/print/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/draw/colours.h"
#include "traces/print/action_label.h"

namespace pipesim {
namespace {

std::string styled(std::string_view text, std::string_view code, bool colour) {
  if (!colour) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string white_on(const Colour& ground, std::string_view text, bool colour) {
  return styled(text, fmt::format("38;5;231;48;5;{}", ground.terminal), colour);
}
std::string black_on(const Colour& ground, std::string_view text, bool colour) {
  return styled(text, fmt::format("38;5;16;48;5;{}", ground.terminal), colour);
}

}  // namespace

Terminal standard_output() { return terminal_of(STDOUT_FILENO); }

Terminal terminal_of(int descriptor) {
  Terminal terminal;
  const bool is_terminal = ::isatty(descriptor) == 1;
  winsize size{};
  if (is_terminal && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.width = size.ws_col;
  } else if (const char* columns = std::getenv("COLUMNS")) {
    const int value = std::atoi(columns);
    if (value > 0) terminal.width = value;
  }
  terminal.width = std::clamp(terminal.width, 40, 400);
  const char* no_colour = std::getenv("NO_COLOR");
  terminal.colour = is_terminal && (no_colour == nullptr || *no_colour == '\0');
  return terminal;
}

namespace {

void fail_printing() {
  if (errno == EPIPE) return;
  throw work_error(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
}

// Whether a space stands between a number and its unit.
bool parts_unit(std::string_view line, std::size_t space) {
  if (space == std::string_view::npos || space == 0) return false;
  if (line[space - 1] < '0' || line[space - 1] > '9') return false;
  std::string_view word = line.substr(space + 1);
  word = word.substr(0, word.find_first_of(" ,;:.)"));
  constexpr std::string_view units[] = {"%", "ns", "us",  "ms",  "s",   "min",
                                        "h", "B",  "KiB", "MiB", "GiB", "TiB"};
  return std::ranges::find(units, word) != std::end(units);
}

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_printing();
}

void finish_printing() {
  if (std::fflush(stdout) != 0) fail_printing();
}

void complain(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

std::string wrap(const std::string& text, int width) {
  std::string out;
  for (const std::string_view paragraph : split(text, '\n')) {
    const std::string margin(std::min(paragraph.find_first_not_of(' '), paragraph.size()), ' ');
    std::string line(paragraph);
    while (line.size() > static_cast<std::size_t>(width)) {
      std::size_t space = line.rfind(' ', static_cast<std::size_t>(width));
      if (parts_unit(line, space)) space = line.rfind(' ', space - 1);
      if (space == std::string::npos || space <= margin.size()) break;
      out.append(line, 0, space).append("\n");
      line.replace(0, space + 1, margin);
    }
    out.append(line).append("\n");
  }
  out.pop_back();
  return out;
}

Progress::Progress() : Progress(STDERR_FILENO) {}

Progress::Progress(int descriptor) : visible_(::isatty(descriptor) == 1) {}

Progress::~Progress() {
  if (visible_) complain("\r\x1b[K");
}

void Progress::show(const std::string& what) {
  if (visible_) complain(fmt::format("\r\x1b[K{} ...", what));
}

std::string paint(std::string_view text, Kind kind, bool colour) {
  return paint(text, kind, 0, 1, colour);
}

std::string paint(std::string_view text, Kind kind, int chunk, int chunks, bool colour) {
  if (!is_compute(kind) && !is_of_input(kind)) return white_on(colours::neutral, text, colour);
  const Colour ground = lighter(colour_of(kind), chunk, chunks);
  return is_light(ground.light) ? black_on(ground, text, colour) : white_on(ground, text, colour);
}

std::string bold(std::string_view text, bool colour) { return styled(text, "1", colour); }
std::string faint(std::string_view text, bool colour) { return styled(text, "2", colour); }

}  // namespace pipesim
