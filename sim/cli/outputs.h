// The files that a command reads and writes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/base/files.h"
#include "traces/command/outputs.h"
#include "traces/print/figure.h"

namespace pipesim::cli {

// The file that a flag names, if it is not a preset.
Flag file_of(const Flag& flag);

// The file, if a command's traces are the single run of an input pipeline. Throws an input error if
// there are other traces, too, or if a flag was given that does not apply to it, that is, other
// than those `used`.
std::optional<std::string> one_input_run(const std::vector<std::string>& traces,
                                         const CommandLine& command,
                                         const std::vector<std::string>& used);

// The file that --figure names, if it does. Made before the work, so that one that can't be
// written fails first.
class FigureFile {
 public:
  explicit FigureFile(const Flag& path);

  bool is_wanted() const { return file_.has_value(); }
  void write(const std::vector<TimelineGroup>& groups);  // once, if wanted
  std::string told() const;                              // a line that says where it is, or empty

 private:
  FigureForm form_ = FigureForm::svg;
  std::optional<OutputFile> file_;
};

}  // namespace pipesim::cli
