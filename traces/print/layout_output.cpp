// The output of --layout-picture.
#include <fmt/format.h>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/layout_picture.h"

namespace pipesim {

LayoutOutput::LayoutOutput(const std::optional<std::string>& asked, bool prints_json) {
  if (!asked) return;
  prints_ = *asked == printed;
  if (prints_ && prints_json) {
    throw input_error(
        "--layout-picture and --json both print; give the picture a file: --layout-picture "
        "FILE.svg");
  }
  if (prints_) return;
  if (!asked->ends_with(".svg")) {
    throw input_error(fmt::format(
        "--layout-picture {}: a picture is written as SVG; give a name that ends in .svg, or none "
        "to print it",
        quote(*asked)));
  }
  file_.emplace(*asked);
}

void LayoutOutput::show(const PipelineLayout& layout, const Terminal& terminal, bool more_follows) {
  if (prints_) print(layout_text(layout, terminal) + (more_follows ? "\n" : ""));
  if (!file_) return;
  file_->write(layout_svg(layout));
  file_->commit();
}

std::string LayoutOutput::told() const {
  return file_ ? fmt::format("Layout: {}\n", printable(file_->path())) : "";
}

}  // namespace pipesim
