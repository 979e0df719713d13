#include "sim/cli/outputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/cost/hardware/presets.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/read/input_trace.h"
#include "traces/read/read_run.h"

namespace pipesim::cli {

Flag file_of(const Flag& flag) { return flag && names_file(*flag) ? flag : Flag(); }

std::optional<std::string> one_input_run(const std::vector<std::string>& traces,
                                         const CommandLine& command,
                                         const std::vector<std::string>& used) {
  const std::vector<std::string> files = files_of(traces);
  const auto found = std::ranges::find_if(files, is_input_trace);
  if (found == files.end()) return std::nullopt;
  if (files.size() > 1) {
    throw input_error(
        fmt::format("{}: a run of an input pipeline is one trace, of all its ranks; give it alone",
                    printable(*found)));
  }
  const std::string other = command.first_given(used);
  if (other.empty()) return *found;
  throw input_error(other + ": it does not apply to a run of an input pipeline");
}

FigureFile::FigureFile(const Flag& path) {
  if (!path) return;
  form_ = figure_form(*path, "--figure");
  file_.emplace(*path);
}

void FigureFile::write(const std::vector<TimelineGroup>& groups) {
  file_->write(draw_figure(groups, form_));
  file_->commit();
}

std::string FigureFile::told() const {
  return file_ ? fmt::format("Figure: {}\n", printable(file_->path())) : "";
}

}  // namespace pipesim::cli
