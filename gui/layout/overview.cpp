// The whole scene in a strip.
#include <algorithm>

#include "gui/layout/columns.h"
#include "gui/layout/layout.h"

namespace pipesim::gui {

Viewport overview_viewport(const Scene& scene, const Canvas& canvas) {
  return {scene.extent, 0, std::max(canvas.width, 1)};
}

void frame_range(DrawList& overview, const Scene& scene, const View& view, const Canvas& canvas,
                 const Palette& palette) {
  overview.boxes.clear();
  const Viewport viewport = overview_viewport(scene, canvas);
  const int least = canvas.scaled(3);
  const int from = std::clamp(viewport.x_of(view.range.from_ns), 0, viewport.width - 1);
  const int to = std::clamp(viewport.x_of(view.range.to_ns), std::min(from + least, viewport.width),
                            viewport.width);
  for (const auto& [x, end] : {std::pair{0, from}, std::pair{to, viewport.width}}) {
    if (x >= end) continue;
    overview.boxes.push_back({.x = x,
                              .y = 0,
                              .width = end - x,
                              .height = canvas.height,
                              .fill = palette.background,
                              .opacity = 150});
  }
  for (const std::int64_t mark : view.marks) {
    const int x = viewport.x_of(mark);
    if (x < 0 || x >= viewport.width) continue;
    overview.boxes.push_back(
        {.x = x, .y = 0, .width = 1, .height = canvas.height, .fill = palette.mark});
  }
  overview.boxes.push_back({.x = from,
                            .y = 0,
                            .width = to - from,
                            .height = canvas.height,
                            .filled = false,
                            .framed = true,
                            .frame = palette.selection});
}

DrawList layout_overview(const Document& /*document*/, const Scene& scene, const View& view,
                         const Canvas& canvas, const Palette& palette) {
  DrawList list;
  list.width = canvas.width;
  list.height = canvas.height;
  list.background = palette.background;
  std::vector<const Lane*> lanes;
  for (const Group& group : scene.groups) {
    for (const Lane& lane : group.lanes) {
      if (lane.kind != LaneKind::transfers && !lane.rows.empty()) lanes.push_back(&lane);
    }
  }
  const std::vector<std::int64_t> times = column_times(overview_viewport(scene, canvas));
  const auto count = static_cast<std::int64_t>(lanes.size());
  const int margin = canvas.scaled(2);
  const int room = std::max(canvas.height - 2 * margin, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const int y = margin + static_cast<int>(i * room / count);
    const int end = margin + static_cast<int>((i + 1) * room / count);
    if (y == end) continue;  // more lanes than pixels: an even choice of them
    const Lane& lane = *lanes[static_cast<std::size_t>(i)];
    DrawList::Strip strip{0, y, end - y, {}, {}};
    strip.columns.assign(times.size() - 1, palette.background);
    RowPaint paint{.shades = palette.shades, .offset_ns = lane.offset_ns};
    paint_row(lane.rows.front(), paint, times, strip);
    list.strips.push_back(std::move(strip));
  }
  frame_range(list, scene, view, canvas, palette);
  return list;
}

}  // namespace pipesim::gui
