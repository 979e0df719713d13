// Curves of a group: memory, lateness, counters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "gui/layout/parts.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

std::string text_of(const CurveLane& lane, std::int64_t value) {
  if (lane.scale != 1) return fmt::format("{:g}", lane.value_of(value));
  if (lane.bytes) return format_bytes(value);
  return lane.label == "lateness" ? format_time(value) : format_count(value);
}

class ScaleMaker {
 public:
  void take(const CurveLane& lane) {
    const Curve::Extremes extremes = lane.curve.extremes();
    least_ = std::min(least_, lane.value_of(extremes.least));
    most_ = std::max(most_, lane.value_of(extremes.most));
    capacity_ = std::max(capacity_, static_cast<double>(lane.capacity.value_or(0)));
  }

  CurveScale scale() const {
    CurveScale made{least_, most_};
    // One that is far above the curves does not count: they would be flat.
    if (capacity_ / 4 <= most_) made.most = std::max(most_, capacity_);
    if (made.most == 0 && made.least == 0) made.most = 1;
    if (made.least < 0) {  // 0 is in the middle
      made.most = std::max(made.most, -made.least);
      made.least = -made.most;
    }
    return made;
  }

 private:
  double least_ = 0;
  double most_ = 0;
  double capacity_ = 0;
};

struct CurveDrawer {
  Drawing& drawing;
  const Band& band;
  CurveScale scale;
  std::vector<int> tops;  // of all curves drawn so far, by column; y of the picture

  // Rows of pixels from a value to the top of `height`.
  static int top_of(double value, double most, int height) {
    const double share = std::clamp(value / most, 0., 1.);
    return height - 1 - static_cast<int>(share * (height - 1) + 0.5);
  }

  void add(int y, int height, std::vector<std::int16_t> rows, Rgb fill, Rgb line,
           bool filled) const {
    const Cut seen = band.cut.of(y, height);
    if (seen.height() == 0) return;
    for (std::int16_t& top : rows) {
      const int at = y + top;
      // Above the cut it is filled to its edge; below nothing is seen.
      top =
          static_cast<std::int16_t>(at >= seen.bottom ? seen.height() : std::max(at - seen.top, 0));
    }
    drawing.picture.list.areas.push_back({.x = drawing.left(),
                                          .y = seen.top,
                                          .height = seen.height(),
                                          .fill = fill,
                                          .line = line,
                                          .filled = filled,
                                          .tops = std::move(rows)});
  }

  // Rows of pixels above 0, under the headroom.
  int upper(const PlacedRow& row) const {
    const int height = row.height - headroom(drawing, row.height);
    return scale.least < 0 ? height / 2 : height;
  }

  int y_of(double value, const PlacedRow& row) const {
    return row.y + headroom(drawing, row.height) + top_of(value, scale.most, upper(row));
  }

  // Where the axis has its values, 0 and the greatest, behind the curves.
  void draw_grid(const PlacedRow& row) const {
    for (const double value : {scale.most, 0.}) {
      const int y = y_of(value, row);
      if (!band.cut.holds(y, 1)) continue;
      drawing.picture.list.grounds.push_back({.x = drawing.left(),
                                              .y = y,
                                              .width = drawing.right() - drawing.left(),
                                              .height = 1,
                                              .fill = drawing.palette.grid});
    }
  }

  void draw(const CurveLane& lane, const PlacedRow& row, bool in_front) {
    const bool signs = scale.least < 0;
    const double most = scale.most;
    const int top = row.y + headroom(drawing, row.height);
    const int upper = this->upper(row);
    const int lower = row.y + row.height - top - upper;
    const std::size_t columns = drawing.times.size() - 1;
    std::vector<std::int16_t> above(columns, static_cast<std::int16_t>(upper));
    std::vector<std::int16_t> below(columns, static_cast<std::int16_t>(lower));
    std::vector<std::int16_t> under = below;  // what of the lower half is not filled
    // From one column to the next most curves stay where they are.
    std::int64_t known = 0;
    int known_top = top_of(0, most, upper);
    const auto top_at = [&](std::int64_t value) {
      if (value != known) known_top = top_of(lane.value_of(known = value), most, upper);
      return static_cast<std::int16_t>(known_top);
    };
    Curve::Sweep sweep(lane.curve, drawing.times[0] - lane.offset_ns);
    for (std::size_t x = 0; x < columns; ++x) {
      const auto seen = sweep.until(drawing.times[x + 1] - lane.offset_ns);
      if (!seen) continue;
      above[x] = top_at(seen->most);
      if (seen->least >= 0 || !signs) continue;
      const int depth = lower - top_of(-lane.value_of(seen->least), most, lower);
      below[x] = 0;
      under[x] = static_cast<std::int16_t>(std::min(depth, lower));
      if (seen->most <= 0) above[x] = static_cast<std::int16_t>(upper);
    }
    const Palette& palette = drawing.palette;
    const bool lateness = lane.label == "lateness";
    const Rgb colour = lateness ? palette.shades[late_shade] : drawing.colour_of_trace(lane.trace);
    const Rgb fill = mix(band.ground, colour, lateness ? 110 : 50);
    const Rgb line = in_front ? colour : mix(band.ground, colour, 190);
    for (std::size_t x = 0; x < columns; ++x) {
      // The line goes from one column's top to the next one's.
      for (const std::size_t own : {x, x + 1 < columns ? x + 1 : x}) {
        const bool drawn = above[x] < upper || (signs && below[x] < lower);
        if (drawn) tops[own] = std::min(tops[own], top + above[x]);
      }
    }
    add(top, upper, std::move(above), fill, line, !in_front || lateness);
    if (!signs) return;
    const Rgb early = palette.shades[early_shade];
    add(top + upper, lower, std::move(below), mix(band.ground, early, 110), early, true);
    add(top + upper, lower, std::move(under), band.ground, band.ground, true);
    drawing.add_box(band.cut, {.x = drawing.left(),
                               .y = top + upper,
                               .width = drawing.right() - drawing.left(),
                               .height = 1,
                               .fill = palette.grid});
  }

  void draw_capacity(const CurveLane& lane, const PlacedRow& row) const {
    if (!lane.capacity || static_cast<double>(*lane.capacity) > scale.most) return;
    const int y = y_of(static_cast<double>(*lane.capacity), row);
    drawing.add_line(band.cut, {.x1 = drawing.left(),
                                .y1 = y,
                                .x2 = drawing.right() - 1,
                                .y2 = y,
                                .colour = drawing.palette.capacity,
                                .width = drawing.scaled(1),
                                .dashed = true});
  }

  // A dot at the peak, and what it is: as near to it as there is room above the curves.
  void draw_peak(const CurveLane& lane, const PlacedRow& row,
                 std::vector<std::pair<int, int>>& taken) const {
    const CurvePoint& peak = lane.curve.peak();
    if (peak.value <= 0) return;
    const int x = drawing.picture.viewport.x_of(peak.time_ns + lane.offset_ns);
    if (x < drawing.left() || x >= drawing.right()) return;
    const int y = y_of(lane.value_of(peak.value), row);
    const Rgb colour = drawing.colour_of_trace(lane.trace);
    const int size = drawing.scaled(5);
    drawing.add_box(
        band.cut.of(row.y - size / 2, row.height + size),
        {.x = x - size / 2, .y = y - size / 2, .width = size, .height = size, .fill = colour});
    std::string text = fmt::format("peak {}", text_of(lane, peak.value));
    if (lane.capacity && static_cast<double>(*lane.capacity) > scale.most) {
      text += fmt::format(" of {}", text_of(lane, *lane.capacity));
    }
    if (!lane.peak.empty()) text += ", " + lane.peak;
    const int width = drawing.text_width(text) + drawing.scaled(4);
    const int height = drawing.canvas.text_height;
    if (row.height < height || !band.cut.holds(row.y, height)) return;
    const auto left = free_place(x, width, row.y + height, taken);
    if (!left) return;
    taken.emplace_back(*left, *left + width);
    drawing.add_box(band.cut, {.x = *left,
                               .y = row.y,
                               .width = width,
                               .height = height - 1,
                               .fill = band.ground,
                               .opacity = 190});
    const auto align = *left >= x           ? DrawList::Align::left
                       : *left + width <= x ? DrawList::Align::right
                                            : DrawList::Align::centre;
    drawing.picture.list.texts.push_back({.x = *left,
                                          .y = row.y,
                                          .width = width,
                                          .height = height,
                                          .colour = colour,
                                          .align = align,
                                          .text = std::move(text)});
  }

  // Where nothing is above `bottom` that is drawn or `taken`: right of `x`, left of it, or
  // as near to it as may be. In O(columns).
  std::optional<int> free_place(int x, int width, int bottom,
                                const std::vector<std::pair<int, int>>& taken) const {
    const int gap = drawing.scaled(5);
    std::optional<int> nearest;
    const auto distance = [&](int left) {
      return left >= x ? left - x : std::max(x - left - width, 0);
    };
    int free = 0;  // columns that end with this one
    for (int column = drawing.left(); column < drawing.right(); ++column) {
      const bool is_free = tops[static_cast<std::size_t>(column - drawing.left())] >= bottom &&
                           std::ranges::none_of(taken, [&](const auto& other) {
                             return column >= other.first && column < other.second;
                           });
      free = is_free ? free + 1 : 0;
      const int left = column + 1 - width;
      if (free < width) continue;
      if (left == x + gap) return left;
      if (!nearest || distance(left) < distance(*nearest)) nearest = left;
    }
    return nearest;
  }
};

}  // namespace

CurveScale scale_of_bytes(const Drawing& drawing) {
  ScaleMaker made;
  for (const int group : drawing.groups) {
    for (const CurveLane& lane : drawing.scene.groups[static_cast<std::size_t>(group)].curves) {
      if (lane.bytes) made.take(lane);
    }
  }
  return made.scale();
}

CurveScale scale_of(const Drawing& drawing, const Group& group, const CurveLane& lane) {
  if (lane.bytes) return drawing.scale_of_bytes;
  ScaleMaker made;
  for (const CurveLane& other : group.curves) {
    if (!other.bytes && other.label == lane.label) made.take(other);
  }
  return made.scale();
}

std::string axis_text(const CurveLane& lane, double value) {
  if (value == 0) return "0";
  if (lane.scale != 1 || std::abs(value) > 1e18) return fmt::format("{:.3g}", value);
  return text_of(lane, static_cast<std::int64_t>(value));
}

int headroom(const Drawing& drawing, int row_height) {
  const int letters = drawing.canvas.text_height;
  return row_height >= 2 * letters + drawing.scaled(6) ? letters : 0;
}

void draw_curves(Drawing& drawing, const Band& band) {
  const Group& group = drawing.scene.groups[static_cast<std::size_t>(band.placed.group)];
  const auto lane_of = [&](const PlacedRow& row) -> const CurveLane& {
    return group.curves[static_cast<std::size_t>(row.row)];
  };
  for (const PlacedRow& first : band.rows) {
    const auto here = [&](const PlacedRow& row) { return row.lane < 0 && row.y == first.y; };
    if (first.lane >= 0 || band.cut.of(first.y, first.height).height() == 0) continue;
    if (&*std::ranges::find_if(band.rows, here) != &first) continue;  // drawn already
    CurveDrawer drawer{drawing, band, scale_of(drawing, group, lane_of(first)), {}};
    drawer.tops.assign(drawing.times.size() - 1, std::numeric_limits<int>::max());
    drawer.draw_grid(first);
    for (const PlacedRow& row : band.rows) {
      if (here(row)) drawer.draw(lane_of(row), row, &row != &first);
    }
    std::vector<std::pair<int, int>> taken;
    for (auto row = band.rows.rbegin(); row != band.rows.rend(); ++row) {
      if (!here(*row) || lane_of(*row).curve.empty()) continue;
      drawer.draw_peak(lane_of(*row), *row, taken);
    }
    drawer.draw_capacity(lane_of(first), first);
  }
}

}  // namespace pipesim::gui
