// State shared by the parts of layout(): the picture under construction, and the place of each
// group in it. Private to layout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gui/layout/columns.h"
#include "gui/layout/layout.h"

namespace pipesim::gui {

// Rows of pixels, the end excluded; what lies outside is cut off.
struct Cut {
  int top = 0;
  int bottom = 0;

  int height() const { return bottom - top; }
  bool holds(int y, int height) const { return y >= top && y + height <= bottom; }
  Cut of(int y, int height) const {
    const int from = y > top ? y : top;
    const int to = y + height < bottom ? y + height : bottom;
    return {from, to < from ? from : to};
  }
};

// A group, placed, with all its rows whether in sight or not.
struct Band {
  PlacedGroup placed;
  Cut cut;
  Rgb ground = 0;
  std::vector<PlacedRow> rows;  // as they are, nothing cut off
};

// How high rows are, in device pixels.
struct RowHeights {
  int work = 0;
  int transfers = 0;
  int slices = 0;
  int curve = 0;
  int gap = 0;  // between rows
  int pad = 0;  // above and below a group
  int least_group = 0;
};

// The values at the top and the bottom of a curve's row.
struct CurveScale {
  double least = 0;  // negative, or 0
  double most = 1;
};

// A bar with room for letters.
struct LabelPlace {
  int x = 0, y = 0, width = 0, height = 0;
  std::int32_t trace = 0;
  Ref ref = no_ref;
  Shade shade = 0;
  Rgb ground = 0;
  std::int64_t length_ns = 0;
  bool faint = false;
};

struct Drawing {
  const Document& document;
  const Scene& scene;
  const View& view;
  const Canvas& canvas;
  const Palette& palette;

  Picture picture;
  std::vector<int> groups;  // those that the filter lets through, pinned ones first
  CurveScale scale_of_bytes;
  int gutter = 0;  // its width
  Cut plot;        // between ruler and legend
  RowHeights heights;
  std::vector<Band> bands;
  std::vector<std::int64_t> times;  // of columns
  std::vector<int> grid;            // columns of the axis' ticks
  std::vector<LabelPlace> labels;

  int left() const { return picture.viewport.x; }
  int right() const { return picture.viewport.x + picture.viewport.width; }
  int scaled(int logical) const { return canvas.scaled(logical); }
  // A row of a band, for letters of which ascenders and descenders may touch its edge.
  bool has_room_for_text(int height) const { return height + scaled(3) >= canvas.text_height; }
  int text_width(std::string_view text) const;
  int widest_label() const;  // of lanes, in the gutter
  // With an ellipsis where it is wider; empty where even three letters are.
  std::string elided(std::string_view text, int width) const;
  // Of the trace's side of the pair, else of what it is.
  Rgb colour_of_trace(int trace) const;
  const OpenTrace* trace(int index) const;

  // Cut off at the sides of the plot and at a band's.
  void add_box(const Cut& cut, DrawList::Box box);
  void add_line(const Cut& cut, DrawList::Line line);
};

// Letters, not bytes.
int letters(std::string_view text);

// All curves of bytes have one scale, others one a group and name.
CurveScale scale_of_bytes(const Drawing& drawing);
CurveScale scale_of(const Drawing& drawing, const Group& group, const CurveLane& lane);
// A value of a lane's axis.
std::string axis_text(const CurveLane& lane, double value);
// How much of a curve's row is free for letters above the curve.
int headroom(const Drawing& drawing, int row_height);

// Each adds to the picture; in this order.
void draw_axis(Drawing& drawing);
void draw_rows(Drawing& drawing, const Band& band);
void draw_curves(Drawing& drawing, const Band& band);
void draw_labels(Drawing& drawing);
void draw_arrows(Drawing& drawing);
void draw_picked(Drawing& drawing);
void draw_gutter(Drawing& drawing);
void draw_legend(Drawing& drawing);

int legend_height(const Drawing& drawing);
int ruler_height(const Drawing& drawing);

// "rank 0 compute": a group's name where there is no second line for its process, if that is short.
inline std::string name_in_a_line(const Group& group) {
  constexpr std::size_t max_process = 12;
  if (group.process.empty() || group.process.size() > max_process) return group.name;
  return group.process + " " + group.name;
}

}  // namespace pipesim::gui
