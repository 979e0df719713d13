// A layout drawn: in characters for a terminal, and as an SVG that needs nothing else.
//
// A row a rank and a column a chunk; each stage a box with its layers, between boxes what is
// sent. Of many ranks or chunks the first and the last are shown, and how many are between.
// Pure functions; the same layout gives the same bytes. Any thread.
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

// What --layout-picture asks for, in every program that has it: the picture printed, or in a
// file. Opens the file, so that one that can't be written fails before any work. Owned by
// whoever made it, one thread.
class LayoutOutput {
 public:
  // What the flag means where no file stands behind it.
  static constexpr const char* printed = "-";

  // The flag's text, or nothing where it was not given. `prints_json`: nothing else may be
  // printed. An input error where both are asked for, or the file's name does not end in .svg.
  LayoutOutput(const std::optional<std::string>& asked, bool prints_json);

  bool is_wanted() const { return prints_ || file_; }
  // Prints, and a blank line where `more_follows`, or writes the file.
  void show(const PipelineLayout& layout, const Terminal& terminal, bool more_follows);
  // "Layout: FILE" as a line, or empty where none was written.
  std::string told() const;

 private:
  bool prints_ = false;
  std::optional<OutputFile> file_;
};

}  // namespace pipesim
