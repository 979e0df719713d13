// The bars in the selected area; for tables and histograms.
//
// Pure; any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gui/scene/document.h"
#include "gui/scene/scene.h"
#include "gui/scene/view.h"

namespace pipesim::gui {

// Of actions and slices aligned by places both lengths are the whole.
struct AreaBar {
  int trace = 0;
  LaneKind lane = LaneKind::work;
  Bar bar;                     // in the trace's own times
  std::int64_t inside_ns = 0;  // how much of it is in the area
  std::int64_t whole_ns = 0;
};

// In the order of rows and, within one, of time. Rows that the filter hides are left out. There is
// an area.
template <typename Each>
void for_each_in_area(const Document& document, const Scene& scene, const View& view, Each each) {
  const TimeRange area = *view.area;
  const bool slots = scene.options.alignment == Alignment::slot;
  for (const Group& group : scene.groups) {
    if (!passes(group, view.filter)) continue;
    for (const Lane& lane : group.lanes) {
      const OpenTrace& trace = document.trace(lane.trace);
      const std::int64_t from_ns = area.from_ns - lane.offset_ns;
      const std::int64_t to_ns = area.to_ns - lane.offset_ns;
      for (const BarRow& row : lane.rows) {
        for (std::size_t i = row.first_ending_after(from_ns); i < row.size(); ++i) {
          AreaBar found{lane.trace, lane.kind, row[i], 0, 0};
          const Bar& bar = found.bar;
          if (bar.start_ns >= to_ns) break;
          found.inside_ns = std::min(bar.end_ns, to_ns) - std::max(bar.start_ns, from_ns);
          found.whole_ns = bar.end_ns - bar.start_ns;
          if (slots && trace.run && !is_bubble(bar.shade)) {
            const Span& span = trace.run->spans[bar.ref];
            found.inside_ns = found.whole_ns = span.end_ns - span.start_ns;
          } else if (slots && trace.input) {
            const Slice& slice = trace.events->slices[bar.ref];
            found.inside_ns = found.whole_ns = slice.end_ns - slice.start_ns;
          }
          each(found);
        }
      }
    }
  }
}

}  // namespace pipesim::gui
