#include "gui/commands/objections.h"

#include <algorithm>

namespace pipesim::gui {
namespace {

std::ptrdiff_t inputs(const Document& document) {
  return std::ranges::count_if(document.traces,
                               [](const auto& trace) { return trace->input.has_value(); });
}

std::string without_pair(const Document& document) {
  if (document.pair) return {};
  if (!document.not_compared.empty()) return "Not compared: " + document.not_compared + ".";
  return "Comparing needs two runs of a pipeline, or of an input pipeline: open another one.";
}

bool has_pipeline(const Document& document) {
  return std::ranges::any_of(document.traces,
                             [](const auto& trace) { return trace->run.has_value(); });
}
bool has_run(const Document& document) { return has_pipeline(document) || inputs(document) > 0; }

std::string without_run(const Document& document) {
  return has_run(document) ? "" : "The open traces contain no known pipeline.";
}

std::string without_pick(const View& view) {
  return view.picked ? "" : "Nothing is selected: click a bar.";
}

std::string without_other_side(const Document& document, const View& view) {
  if (!view.picked) return without_pick(view);
  const int trace = view.picked->trace;
  const bool has_other =
      document.side_of(trace).has_value() || (document.trace(trace).input && inputs(document) > 1);
  return has_other ? "" : "There is no other run to compare with.";
}

}  // namespace

std::string objection_to(Command command, const Document& document, const Scene& scene,
                         const View& view) {
  if (command == Command::undo || command == Command::redo || command == Command::clear) return {};
  if (document.traces.empty()) return "Nothing is open yet.";
  switch (command) {
    case Command::align_slot: return without_run(document);
    case Command::show_overlay:
    case Command::show_difference:
    case Command::colour_error: return without_pair(document);
    case Command::colour_microbatch:
      return has_run(document) ? "" : "The open traces have no microbatches.";
    case Command::toggle_arrows:
      return scene.arrows.empty() ? "There are no messages between the rows." : "";
    case Command::toggle_curves: {
      const bool has_curves = std::ranges::any_of(
          scene.groups, [](const Group& group) { return !group.curves.empty(); });
      return has_curves ? "" : "There are no curves of memory, counters or lateness.";
    }
    case Command::toggle_critical: return without_run(document);
    case Command::toggle_transfers:
      if (!has_pipeline(document)) {
        return has_run(document) ? "Streams of input pipelines are always shown."
                                 : without_run(document);
      }
      return view.options.alignment == Alignment::slot ? "Aligned by slot, only compute is shown."
                                                       : "";
    case Command::flow_back:
    case Command::flow_forward:
    case Command::pin: return without_pick(view);
    case Command::other_side: return without_other_side(document, view);
    case Command::select_area: return view.emphasised.empty() ? without_pick(view) : "";
    case Command::clear_marks: return view.marks.empty() ? "No mark is set." : "";
    default: return {};
  }
}

}  // namespace pipesim::gui
