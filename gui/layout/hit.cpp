// From a point of a picture back to what is there.
#include <algorithm>
#include <limits>

#include "gui/layout/layout.h"

namespace pipesim::gui {
namespace {

// The bar that fills most of a column, work before bubbles; none of no length.
std::optional<Bar> bar_at(const BarRow& row, std::int64_t from_ns, std::int64_t to_ns) {
  std::optional<Bar> found;
  std::int64_t found_ns = -1;
  constexpr std::size_t most = 64;  // of a column that holds more, the first
  const std::size_t first = row.first_ending_after(from_ns);
  for (std::size_t i = first; i < row.size() && i < first + most; ++i) {
    const Bar bar = row[i];
    if (bar.start_ns >= to_ns) break;
    if (bar.start_ns == bar.end_ns) continue;
    const std::int64_t length = std::min(bar.end_ns, to_ns) - std::max(bar.start_ns, from_ns);
    const bool better = !found || is_bubble(found->shade) > is_bubble(bar.shade) ||
                        (is_bubble(found->shade) == is_bubble(bar.shade) && length > found_ns);
    if (!better) continue;
    found = bar;
    found_ns = length;
  }
  return found;
}

// Of bars of no length the first of a column, else the closest within reach; nothing
// where bars fill half of the column.
std::optional<Bar> instant_at(const BarRow& row, const Picture& picture, int x,
                              std::int64_t offset_ns) {
  const auto instants = row.instants();
  if (instants.empty()) return {};
  const auto time = [&](int column) { return picture.viewport.time_of(column) - offset_ns; };
  const std::int64_t from_ns = time(x);
  const std::int64_t to_ns = std::max(time(x + 1), from_ns + 1);
  const ShadeTimes before = row.filled_before(from_ns);
  const ShadeTimes after = row.filled_before(to_ns);
  std::int64_t free_ns = to_ns - from_ns;
  for (std::size_t shade = 0; shade < shade_count; ++shade) free_ns -= after[shade] - before[shade];
  if (2 * free_ns <= to_ns - from_ns) return {};
  const auto next = std::ranges::lower_bound(instants, from_ns, {}, &BarRow::Instant::time_ns);
  const BarRow::Instant* found = nullptr;
  std::int64_t found_ns = std::numeric_limits<std::int64_t>::max();
  if (next != instants.end() && next->time_ns < time(x + 1 + picture.reach)) {
    found = &*next;
    found_ns = std::max<std::int64_t>(next->time_ns - to_ns, 0);
  }
  if (next != instants.begin() && found_ns > 0) {
    const BarRow::Instant& last = *std::prev(next);
    if (last.time_ns >= time(x - picture.reach) && from_ns - last.time_ns < found_ns) found = &last;
  }
  if (found == nullptr) return {};
  return row[found->bar];
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
    const BarRow& bars = lane.rows[static_cast<std::size_t>(row->row)];
    auto bar = instant_at(bars, picture, x, lane.offset_ns);
    if (!bar) bar = bar_at(bars, found.time_ns - lane.offset_ns, end_ns - lane.offset_ns);
    if (!bar) continue;
    found.lane = row->lane;
    found.bar = bar;
    found.pick = Pick{lane.trace, bar->ref, is_bubble(bar->shade)};
    break;
  }
  return found;
}

}  // namespace pipesim::gui
