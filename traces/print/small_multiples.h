// Timelines of several schedules below each other, on one axis of time: in characters for a
// terminal, and as an SVG that needs nothing else.
//
// The same timelines give the same bytes. Pure functions of what `replay` gives; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "traces/print/terminal.h"
#include "traces/timeline.h"

namespace pipesim {

struct TimelinePanel {
  std::string title;                // one line
  std::vector<int> chunk_of_stage;  // of all stages
  std::vector<std::size_t> actions_of_rank;
  std::int64_t makespan_ns = 0;
  // Gives all spans to a sink, each time the same.
  std::function<void(const SpanSink&)> replay;
};

// Panels on one axis, under a heading of one line; below them a note, or none.
struct TimelineGroup {
  std::string heading;
  std::vector<TimelinePanel> panels;
  std::string note;
};

std::string small_multiples(const TimelineGroup& group, const Terminal& terminal);

// Every rank has a row, and every action that keeps it busy is one rect, with a title of its
// kind, stage and microbatch where there are no more than some thousands.
std::string timelines_svg(const std::vector<TimelineGroup>& groups);

}  // namespace pipesim
