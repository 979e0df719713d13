// The files that a command reads and writes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/base/files.h"
#include "traces/command/outputs.h"
#include "traces/print/figure.h"

namespace pipesim::cli {

// What a flag names, where that is a file and no preset.
Flag file_of(const Flag& flag);

// Whether a command's traces are the one run of an input pipeline. An input error where others
// stand beside it, or where a flag was given, other than those `used`, that it has no use for.
bool is_one_input_run(const std::vector<std::string>& traces, const CommandLine& command,
                      const std::vector<std::string>& used);

// The file that --figure names, if it does. Made before the work, so that one that can't be
// written fails first.
class FigureFile {
 public:
  explicit FigureFile(const Flag& path);

  bool is_wanted() const { return file_.has_value(); }
  void write(const std::vector<TimelineGroup>& groups);  // once, where it is wanted
  std::string told() const;                              // where it is; a line, or nothing

 private:
  FigureForm form_ = FigureForm::svg;
  std::optional<OutputFile> file_;
};

}  // namespace pipesim::cli
