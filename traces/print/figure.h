// Timelines as a figure for papers and slides, by the end of a file's name SVG or PNG: nothing but
// rows, axis and legend, and the headings of those that have one.
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

// An input error names the flag where a name ends in neither.
FigureForm figure_form(std::string_view path, std::string_view flag);

// Every rank shown has a row. Where its actions are few, each is a box; else every column of
// pixels is split by kind in proportion to time. Panels of a group have one axis.
std::string draw_figure(const std::vector<TimelineGroup>& groups, FigureForm form);

// The same as a list, `scale` of whose pixels are one of the page.
DrawList figure_list(const std::vector<TimelineGroup>& groups, int scale);

}  // namespace pipesim
