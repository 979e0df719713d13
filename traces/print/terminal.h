// The terminal's abilities: its width, and whether it shows colours.
#pragma once

#include <string>
#include <string_view>

#include "traces/action.h"

namespace pipesim {

struct Terminal {
  int width = 80;
  bool colour = false;
};

// For an open file: the width of the terminal, else $COLUMNS, else 80; colours only on a terminal
// and if NO_COLOR is not set.
Terminal terminal_of(int descriptor);
Terminal standard_output();

// Writes to standard output; throws a work error if that fails. Text whose reader has gone is lost:
// work that it would only report must not end by that.
void print(std::string_view text);
// Flushes it; for main, once all is printed.
void finish_printing();
// Writes to standard error; text that can't be written is lost.
void complain(std::string_view text);

// A line on standard error that says what is being done, replaced by the next and removed at the
// end. Prints nothing if standard error, or the file given instead of it, is not a terminal.
class Progress {
 public:
  Progress();
  explicit Progress(int descriptor);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& what);

 private:
  bool visible_;
};

// Breaks paragraphs at spaces, but not between a number and its unit, so that no line is longer
// than `width`; lines that continue one are indented like it.
std::string wrap(const std::string& text, int width);

// A palette safe for colour-blind readers (Okabe and Ito): forward blue, backward and input
// gradient orange, weight gradient green, transfers grey.
std::string paint(std::string_view text, Kind kind, bool colour);
// The same for one of a rank's chunks, later ones lighter.
std::string paint(std::string_view text, Kind kind, int chunk, int chunks, bool colour);
std::string bold(std::string_view text, bool colour);
std::string faint(std::string_view text, bool colour);

}  // namespace pipesim
