// From a point of a picture back to what is there.
#include <algorithm>

#include "gui/layout/layout.h"

namespace pipesim::gui {
namespace {

// The bar that fills most of a column, work before bubbles.
std::optional<Bar> bar_at(const BarRow& row, std::int64_t from_ns, std::int64_t to_ns) {
  std::optional<Bar> found;
  std::int64_t found_ns = -1;
  constexpr std::size_t most = 64;  // of a column that holds more, the first
  const std::size_t first = row.first_ending_after(from_ns);
  for (std::size_t i = first; i < row.size() && i < first + most; ++i) {
    const Bar bar = row[i];
    if (bar.start_ns >= to_ns) break;
    const std::int64_t length = std::min(bar.end_ns, to_ns) - std::max(bar.start_ns, from_ns);
    const bool better = !found || is_bubble(found->shade) > is_bubble(bar.shade) ||
                        (is_bubble(found->shade) == is_bubble(bar.shade) && length > found_ns);
    if (!better) continue;
    found = bar;
    found_ns = length;
  }
  return found;
}

}  // namespace

std::optional<Hit> hit(const Picture& picture, const Scene& scene, int x, int y) {
  const int top = picture.ruler_height + picture.pinned_height;
  const int bottom = picture.list.height - picture.legend_height;
  if (y < picture.ruler_height || y >= bottom) return {};
  Hit found;
  const Viewport& viewport = picture.viewport;
  found.time_ns = viewport.time_of(x);
  // The last group that starts above the point: pinned ones and the others are each
  // sorted, and those that don't scroll cover those that do.
  const auto pinned_end = std::ranges::partition_point(picture.groups, &PlacedGroup::pinned);
  const bool pinned = y < top;
  const auto from = pinned ? picture.groups.begin() : pinned_end;
  const auto to = pinned ? pinned_end : picture.groups.end();
  const auto above = std::ranges::upper_bound(from, to, y, {}, &PlacedGroup::y);
  if (above == from) return {};
  const PlacedGroup& group = *std::prev(above);
  if (y >= group.y + group.height) return {};
  found.group = group.group;

  const auto& groups = scene.groups;
  if (found.group < 0 || static_cast<std::size_t>(found.group) >= groups.size()) return {};
  const std::int64_t end_ns = std::max(viewport.time_of(x + 1), found.time_ns + 1);
  // Rows that start above the point, what is in front first.
  auto row = std::ranges::upper_bound(picture.rows, y, {}, &PlacedRow::y);
  while (row != picture.rows.begin()) {
    --row;
    if (row->group != found.group) break;
    if (row->lane < 0 || y >= row->y + row->height) continue;
    const auto& lanes = groups[static_cast<std::size_t>(row->group)].lanes;
    const auto lane_number = static_cast<std::size_t>(row->lane);
    if (lane_number >= lanes.size()) return {};
    const Lane& lane = lanes[lane_number];
    if (static_cast<std::size_t>(row->row) >= lane.rows.size()) return {};
    if (found.lane < 0) found.lane = row->lane;
    if (x < viewport.x || x >= viewport.x + viewport.width) break;
    const auto bar = bar_at(lane.rows[static_cast<std::size_t>(row->row)],
                            found.time_ns - lane.offset_ns, end_ns - lane.offset_ns);
    if (!bar) continue;
    found.lane = row->lane;
    found.bar = bar;
    found.pick = Pick{lane.trace, bar->ref, is_bubble(bar->shade)};
    break;
  }
  return found;
}

}  // namespace pipesim::gui
