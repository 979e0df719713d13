// Timelines as a figure for papers and slides, SVG or PNG by the end of the file's name: only rows,
// axis and legend, and headings if there are any.
//
// The same timelines give the same bytes. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/draw/draw_list.h"
#include "traces/print/timeline_panel.h"

namespace pipesim {

enum class FigureForm : std::uint8_t { svg, png };

// If a name ends in neither, an input error names the flag.
FigureForm figure_form(std::string_view path, std::string_view flag);

// Every rank shown has a row. If it has few actions, each is a box; else every column of pixels is
// split by kind in proportion to time. Panels of a group share an axis.
std::string draw_figure(const std::vector<TimelineGroup>& groups, FigureForm form);

// The same as a list, with `scale` pixels for each pixel of the page.
DrawList figure_list(const std::vector<TimelineGroup>& groups, int scale);

}  // namespace pipesim
