// Bars as columns of pixels. Where bars are too short to be told apart, the columns of a
// cell, an interval a few bars wide, share a stack: each shade's share of the
// time is its share of the height, work at the bottom, bubbles above, and the background at
// the top. So every colour is in the legend, and areas are times.
// Elsewhere a column belongs to the bar that covers most of it; work within one has at least three
// eighths of its height.
//
// Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gui/scene/bars.h"
#include "gui/scene/viewport.h"
#include "traces/draw/draw_list.h"

namespace pipesim::gui {

using Shades = std::array<Rgb, shade_count>;

// The first instant of each column, and the end of the last.
std::vector<std::int64_t> column_times(const Viewport& viewport);

// A bar that fills the columns [first, last) by itself.
struct WideBar {
  std::size_t bar = 0;
  int first = 0;
  int last = 0;
};

struct RowPaint {
  Shades shades{};
  std::int64_t offset_ns = 0;  // to be added to the bars' times
  int least_wide = 4;          // columns from which on a bar counts as wide: it is not stacked
  int edge = 0;                // of 256, how far the first column of a wide bar that is no bubble
  Rgb edge_colour = 0;         // takes this colour
};

// Draws a row's bars over what the columns of `strip` hold, of which `times` has one more;
// adds the wide ones, from left to right. A column of which bars fill less than half shows
// the first bar of no length that it holds. In O(columns) and what BarRow::Sweep takes.
void paint_row(const BarRow& row, const RowPaint& paint, std::span<const std::int64_t> times,
               DrawList::Strip& strip, std::vector<WideBar>* wide = nullptr);

}  // namespace pipesim::gui
