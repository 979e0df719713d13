// All commands that change a view by key, button or menu: one list, for the window, its help and
// its tests.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "gui/layout/layout.h"
#include "gui/scene/scene.h"
#include "gui/scene/view.h"

namespace pipesim::gui {

enum class Command : std::uint8_t {
  pan_left,
  pan_right,
  zoom_in,
  zoom_out,  // A D W S, Left Right, + -
  page_up,
  page_down,  // PageUp PageDown
  scroll_up,
  scroll_down,  // Up Down
  focus,        // F: the selection; again: all
  fit,          // 0
  previous,
  next,  // , . on the same row
  flow_back,
  flow_forward,  // [ ] along a transfer
  other_side,    // O: the same action of the other trace
  select_area,   // R: the selection's time as the area
  mark,
  clear_marks,  // M, Shift+M
  align_absolute,
  align_iteration,
  align_slot,  // 1 2 3
  show_stacked,
  show_overlay,
  show_difference,  // 4 5 6
  colour_kind,
  colour_microbatch,
  colour_error,  // 7 8 9
  toggle_arrows,
  toggle_curves,
  toggle_critical,
  toggle_transfers,  // E C X T
  pin,               // P: the group of the selection
  undo,
  redo,   // Ctrl+Z, Ctrl+Shift+Z
  clear,  // Esc: selection, area, emphasis
};

struct CommandHelp {
  Command command;
  std::string_view keys;   // "W, Up": in QKeySequence's form, alternatives separated by ", "
  std::string_view group;  // "Move", "Select", "Show"
  std::string_view title;  // "Zoom In"
};
// In the order of help and menus.
std::span<const CommandHelp> command_list();

// The view after a command; unchanged if it does not apply. Undo and redo belong to the history,
// and don't change the view. `scene` and `picture` are those of `view`, the picture as last drawn.
// Ranges are within the extent of the scene with the view's options.
View apply(Command command, const Document& document, const Scene& scene, const View& view,
           const Picture& picture);

// The view with that bar picked and visible, moved no more than needed; a filter that hides its
// group is removed.
View with_pick(const Document& document, const Scene& scene, const View& view, const Pick& pick,
               const Picture& picture);
// The view that shows the subject of a table's row, emphasised, and little else.
View with_emphasis(const Document& document, const Scene& scene, const View& view,
                   std::vector<Pick> picks, const Picture& picture);

}  // namespace pipesim::gui
