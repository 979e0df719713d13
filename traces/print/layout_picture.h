// A layout drawn: in characters for a terminal, and as an SVG that needs nothing else.
//
// One row per rank and one column per chunk; each stage is a box with its layers, with what is sent
// between boxes. If there are many ranks or chunks, shows the first and the last ones, and how many
// are in between. Pure functions; the same layout gives the same bytes. Any thread.
#pragma once

#include <optional>
#include <string>

#include "traces/base/files.h"
#include "traces/pipeline_layout.h"
#include "traces/print/terminal.h"

namespace pipesim {

// No line is wider than the terminal.
std::string layout_text(const PipelineLayout& layout, const Terminal& terminal);
std::string layout_svg(const PipelineLayout& layout);

// The output of --layout-picture, in every program that has the flag: the picture printed, or in a
// file. Opens the file first, so that one that can't be written fails before any work. One owner,
// one thread.
class LayoutOutput {
 public:
  // What the flag means without a file.
  static constexpr const char* printed = "-";

  // The flag's text, or nothing if it was not given. `prints_json`: nothing else may be printed.
  // Throws an input error if both are asked for, or if the file's name does not end in .svg.
  LayoutOutput(const std::optional<std::string>& asked, bool prints_json);

  bool is_wanted() const { return prints_ || file_; }
  // Prints, with a blank line if `more_follows`, or writes the file.
  void show(const PipelineLayout& layout, const Terminal& terminal, bool more_follows);
  // "Layout: FILE" as a line, or empty if none was written.
  std::string told() const;

 private:
  bool prints_ = false;
  std::optional<OutputFile> file_;
};

}  // namespace pipesim
