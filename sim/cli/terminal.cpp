#include "sim/cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace pipesim::cli {
namespace {

std::string styled(std::string_view text, std::string_view code, bool colour) {
  if (!colour) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace

Terminal standard_output() {
  Terminal terminal;
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  winsize size{};
  if (is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
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

std::string paint(std::string_view text, Kind kind, bool colour) {
  switch (kind) {
    case Kind::F: return styled(text, "38;5;231;48;5;25", colour);
    case Kind::I:
    case Kind::B: return styled(text, "38;5;16;48;5;214", colour);
    case Kind::W: return styled(text, "38;5;16;48;5;36", colour);
    default: return styled(text, "38;5;231;48;5;240", colour);
  }
}

std::string bold(std::string_view text, bool colour) { return styled(text, "1", colour); }
std::string faint(std::string_view text, bool colour) { return styled(text, "2", colour); }

}  // namespace pipesim::cli
