// Curves of a group: memory, lateness, counters.
#include <fmt/format.h>

#include <algorithm>

#include "gui/layout/parts.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

struct Scale {
  double least = 0;  // negative, or 0
  double most = 1;
};

std::string text_of(const CurveLane& lane, std::int64_t value) {
  if (lane.scale != 1) return fmt::format("{:g}", lane.value_of(value));
  if (lane.bytes) return format_bytes(value);
  return lane.label == "lateness" ? format_time(value) : format_count(value);
}

// All curves of bytes have one scale; others one a group and name. A capacity that
// is far above the curves does not count: they would be flat.
Scale scale_of(const Drawing& drawing, const Band& band, const CurveLane& lane) {
  Scale scale{0, 0};
  double capacity = 0;
  const auto take = [&](const Group& group) {
    for (const CurveLane& other : group.curves) {
      if (other.bytes != lane.bytes || (!lane.bytes && other.label != lane.label)) continue;
      const Curve::Extremes extremes = other.curve.extremes();
      scale.least = std::min(scale.least, other.value_of(extremes.least));
      scale.most = std::max(scale.most, other.value_of(extremes.most));
      capacity = std::max(capacity, static_cast<double>(other.capacity.value_or(0)));
    }
  };
  if (lane.bytes) {
    for (const Band& any : drawing.bands) {
      take(drawing.scene.groups[static_cast<std::size_t>(any.placed.group)]);
    }
  } else {
    take(drawing.scene.groups[static_cast<std::size_t>(band.placed.group)]);
  }
  if (capacity / 4 <= scale.most) scale.most = std::max(scale.most, capacity);
  if (scale.most == 0 && scale.least == 0) scale.most = 1;
  return scale;
}

struct CurveDrawer {
  Drawing& drawing;
  const Band& band;

  // Rows of pixels from a value to the top of `height`.
  static int top_of(double value, double most, int height) {
    const double share = std::clamp(value / most, 0., 1.);
    return height - 1 - static_cast<int>(share * (height - 1) + 0.5);
  }

  void add(int y, int height, std::vector<std::int16_t> tops, Rgb fill, Rgb line,
           bool filled) const {
    const Cut seen = band.cut.of(y, height);
    if (seen.height() == 0) return;
    for (std::int16_t& top : tops) {
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
                                          .tops = std::move(tops)});
  }

  void draw(const CurveLane& lane, const PlacedRow& row, const Scale& scale, bool in_front) const {
    const bool signs = scale.least < 0;
    const double most = std::max(scale.most, -scale.least);
    const int upper = signs ? row.height / 2 : row.height;
    const int lower = row.height - upper;
    const std::size_t columns = drawing.times.size() - 1;
    std::vector<std::int16_t> above(columns, static_cast<std::int16_t>(upper));
    std::vector<std::int16_t> below(columns, static_cast<std::int16_t>(lower));
    std::vector<std::int16_t> under = below;  // what of the lower half is not filled
    Curve::Sweep sweep(lane.curve, drawing.times[0] - lane.offset_ns);
    for (std::size_t x = 0; x < columns; ++x) {
      const auto seen = sweep.until(drawing.times[x + 1] - lane.offset_ns);
      if (!seen) continue;
      above[x] = static_cast<std::int16_t>(top_of(lane.value_of(seen->most), most, upper));
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
    add(row.y, upper, std::move(above), fill, line, !in_front || lateness);
    if (!signs) return;
    const Rgb early = palette.shades[early_shade];
    add(row.y + upper, lower, std::move(below), mix(band.ground, early, 110), early, true);
    add(row.y + upper, lower, std::move(under), band.ground, band.ground, true);
    drawing.add_box(band.cut, {.x = drawing.left(),
                               .y = row.y + upper,
                               .width = drawing.right() - drawing.left(),
                               .height = 1,
                               .fill = palette.grid});
  }

  void draw_capacity(const CurveLane& lane, const PlacedRow& row, const Scale& scale) const {
    if (!lane.capacity || static_cast<double>(*lane.capacity) > scale.most) return;
    const int y = row.y + top_of(static_cast<double>(*lane.capacity), scale.most, row.height);
    drawing.add_line(band.cut, {.x1 = drawing.left(),
                                .y1 = y,
                                .x2 = drawing.right() - 1,
                                .y2 = y,
                                .colour = drawing.palette.capacity,
                                .width = drawing.scaled(1),
                                .dashed = true});
  }

  // A dot at the peak and what it is, where nothing else is said.
  void draw_peak(const CurveLane& lane, const PlacedRow& row, const Scale& scale,
                 std::vector<std::pair<int, int>>& taken) const {
    const CurvePoint& peak = lane.curve.peak();
    if (peak.value <= 0) return;
    const int x = drawing.picture.viewport.x_of(peak.time_ns + lane.offset_ns);
    if (x < drawing.left() || x >= drawing.right()) return;
    const int height = scale.least < 0 ? row.height / 2 : row.height;
    const double most = std::max(scale.most, -scale.least);
    const int y = row.y + top_of(lane.value_of(peak.value), most, height);
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
    const int text_height = drawing.canvas.text_height;
    if (row.height < text_height + drawing.scaled(4)) return;
    const int text_y = row.y + row.height - text_height - drawing.scaled(1);
    if (!band.cut.holds(text_y, text_height)) return;
    for (const int left : {x + size, x - size - width}) {
      const bool free = std::ranges::all_of(taken, [&](const auto& other) {
        return left >= other.second || left + width <= other.first;
      });
      if (!free || left < drawing.left() || left + width > drawing.right()) continue;
      taken.emplace_back(left, left + width);
      drawing.add_box(band.cut, {.x = left,
                                 .y = text_y,
                                 .width = width,
                                 .height = text_height,
                                 .fill = band.ground,
                                 .opacity = 190});
      drawing.picture.list.texts.push_back(
          {.x = left,
           .y = text_y,
           .width = width,
           .height = text_height,
           .colour = colour,
           .align = left > x ? DrawList::Align::left : DrawList::Align::right,
           .text = std::move(text)});
      return;
    }
  }
};

}  // namespace

void draw_curves(Drawing& drawing, const Band& band) {
  const Group& group = drawing.scene.groups[static_cast<std::size_t>(band.placed.group)];
  const CurveDrawer drawer{drawing, band};
  const auto lane_of = [&](const PlacedRow& row) -> const CurveLane& {
    return group.curves[static_cast<std::size_t>(row.row)];
  };
  for (const PlacedRow& first : band.rows) {
    const auto here = [&](const PlacedRow& row) { return row.lane < 0 && row.y == first.y; };
    if (first.lane >= 0 || band.cut.of(first.y, first.height).height() == 0) continue;
    if (&*std::ranges::find_if(band.rows, here) != &first) continue;  // drawn already
    const Scale scale = scale_of(drawing, band, lane_of(first));
    for (const PlacedRow& row : band.rows) {
      if (here(row)) drawer.draw(lane_of(row), row, scale, &row != &first);
    }
    std::vector<std::pair<int, int>> taken;
    for (auto row = band.rows.rbegin(); row != band.rows.rend(); ++row) {
      if (!here(*row) || lane_of(*row).curve.empty()) continue;
      drawer.draw_peak(lane_of(*row), *row, scale, taken);
    }
    drawer.draw_capacity(lane_of(first), first, scale);
  }
}

}  // namespace pipesim::gui
