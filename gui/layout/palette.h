// The colours of the viewer, light and dark: those of terminal and page
// (traces/draw/colours.h), and more.
//
// What shades 0 to 7 mean:
//   kind        F, I, W, B, forward transfers, backward transfers, steps and reductions,
//               other
//   microbatch  eight hues, the microbatch modulo 8
//   error       0 to 2 faster than predicted, 0 most; 3 as predicted; 4 to 6 slower,
//               6 most; 7 in one of the runs only
// An input pipeline has batches for microbatches, and its kinds are the dense part (0), rows (1),
// exchanges (2), the host (6) and copies (7). Under every colouring 8 to 11 are bubbles (warm-up,
// steady, drain, p2p), pale tints that recede behind work, as does 16, what waits; 12 is the
// critical path; 13 and 14 are late and early; 15 is of no hue; from 17 on F, I, W and B come ever
// lighter, for a rank's later chunks.
//
// Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>

#include "gui/scene/bars.h"
#include "traces/draw/draw_list.h"

namespace pipesim::gui {

enum class Theme : std::uint8_t { light, dark };

struct Palette {
  std::array<Rgb, shade_count> shades{};
  Rgb background = 0, band = 0;  // of every other group of rows
  Rgb gutter = 0, grid = 0, text = 0, faint_text = 0;
  Rgb on_bar = 0, on_dark_bar = 0;  // labels on light and on dark bars
  Rgb selection = 0, area = 0, arrow = 0, capacity = 0, mark = 0;
  Rgb predicted = 0, measured = 0;  // of curves and of the names of sides
};

Palette palette(Theme theme, Colouring colouring);

}  // namespace pipesim::gui
