// Layout: a pure function from a scene and a view of it to a draw
// list, and from a point back to what is there.
//
// Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gui/layout/palette.h"
#include "gui/scene/scene.h"
#include "gui/scene/view.h"
#include "gui/scene/viewport.h"
#include "traces/draw/draw_list.h"

namespace pipesim::gui {

// The size of the canvas and of letters, in device pixels.
struct Canvas {
  int width = 0;
  int height = 0;
  double scale = 1;    // device pixels a logical one; 2 on a fine screen
  int char_width = 7;  // of the widest digit or letter that labels have
  int text_height = 14;

  int scaled(int logical) const { return static_cast<int>(logical * scale + 0.5); }
};

// A row of bars, or a curve, as placed; of one that is partly in sight that part.
struct PlacedRow {
  int group = 0;
  int lane = 0;  // -1: a curve
  int row = 0;   // of the lane; of a curve its place among the group's
  int y = 0;
  int height = 0;
};

// A group that is not filtered out, wherever scrolling has moved it.
struct PlacedGroup {
  int group = 0;
  int y = 0;
  int height = 0;
  bool pinned = false;  // does not scroll
};

struct Picture {
  DrawList list;
  std::vector<PlacedRow> rows;      // those that are visible, from top to bottom
  std::vector<PlacedGroup> groups;  // pinned ones first, from top to bottom
  Viewport viewport;                // of the rows' time axis
  int reach = 3;                    // columns from which a bar of no length is hit
  int ruler_height = 0;
  int legend_height = 0;
  int pinned_height = 0;   // of the groups that don't scroll
  int content_height = 0;  // of those that do, all of them
  std::int64_t hidden_labels = 0;
  std::int64_t bundled_arrows = 0;  // shown as bundles
};

// At most so many in a picture; the rest is left out or bundled, and counted. Of
// more arrows than can be looked at in time, every n-th stands for n in its bundle.
inline constexpr int max_labels = 700;
inline constexpr int max_arrows = 250;

Picture layout(const Document& document, const Scene& scene, const View& view, const Canvas& canvas,
               const Palette& palette);

// The whole scene in a strip, each lane a few pixels high, with the view's range framed.
DrawList layout_overview(const Document& document, const Scene& scene, const View& view,
                         const Canvas& canvas, const Palette& palette);
// Of such a strip, frames another view's range: all that depends on the view.
void frame_range(DrawList& overview, const Scene& scene, const View& view, const Canvas& canvas,
                 const Palette& palette);
// The viewport of that strip: the whole extent over the canvas' width.
Viewport overview_viewport(const Scene& scene, const Canvas& canvas);

// What is at a point of a picture: at least a group.
struct Hit {
  int group = -1;
  int lane = -1;
  std::optional<Pick> pick;  // of a bar
  std::optional<Bar> bar;    // as the trace has it
  std::int64_t time_ns = 0;  // of the axis
};
std::optional<Hit> hit(const Picture& picture, const Scene& scene, int x, int y);

// Text for an instant of the axis, with digits that a step needs: "12.5 ms", "slot 7".
std::string axis_text(std::int64_t time_ns, std::int64_t step_ns, Alignment alignment);

}  // namespace pipesim::gui
