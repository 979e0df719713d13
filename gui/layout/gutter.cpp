// What stands beside the rows: names of groups and lanes.
#include <algorithm>

#include "gui/layout/parts.h"

namespace pipesim::gui {
namespace {

struct GutterDrawer {
  Drawing& drawing;
  const Band& band;
  const Group& group;

  int margin() const { return drawing.scaled(8); }
  int side_width() const { return drawing.scaled(4); }
  int text_end() const { return drawing.gutter - side_width() - drawing.scaled(6); }

  int label_width() const {
    int width = 0;
    for (const Lane& lane : group.lanes) {
      width = std::max(width, drawing.text_width(label_of_lane(lane)));
    }
    for (const CurveLane& lane : group.curves) {
      width = std::max(width, drawing.text_width(lane.label));
    }
    return std::min(width, drawing.widest_label());
  }

  static std::string label_of_lane(const Lane& lane) {
    if (lane.kind == LaneKind::transfers && !lane.label.empty()) return "transfers";
    return lane.label;
  }

  void add_text(DrawList::Text text) const {
    if (text.text.empty() || !band.cut.holds(text.y, text.height)) return;
    drawing.picture.list.cover_texts.push_back(std::move(text));
  }

  // Beside the lanes, and in sight while any of the group is.
  void draw_name(int width) const {
    const int height = drawing.canvas.text_height;
    int bottom = band.placed.y + drawing.heights.pad;
    for (const PlacedRow& row : band.rows) {
      const bool nested = row.lane >= 0 && row.row > 0;
      if (row.lane >= 0 && !nested) bottom = std::max(bottom, row.y + row.height);
    }
    const Cut seen = band.cut.of(band.placed.y, band.placed.height);
    if (seen.height() < height) return;
    const bool two_lines =
        !group.process.empty() && seen.height() >= 2 * height + drawing.scaled(2);
    const int block = two_lines ? 2 * height : height;
    const int top = band.placed.y + drawing.heights.pad;
    const int y = std::clamp((top + bottom - block) / 2, seen.top, seen.bottom - block);
    add_text({.x = margin(),
              .y = y,
              .width = width,
              .height = height,
              .colour = drawing.palette.text,
              .bold = true,
              .text = drawing.elided(group.name, width * 5 / 6)});
    if (!two_lines) return;
    add_text({.x = margin(),
              .y = y + height,
              .width = width,
              .height = height,
              .colour = drawing.palette.faint_text,
              .text = drawing.elided(group.process, width)});
  }

  void draw_label(const std::string& label, int y, int height, int width, Rgb colour) const {
    if (!drawing.has_room_for_text(height)) return;
    add_text({.x = text_end() - width,
              .y = y,
              .width = width,
              .height = height,
              .colour = colour,
              .align = DrawList::Align::right,
              .text = drawing.elided(label, width)});
  }

  void draw() const {
    const int label = label_width();
    const int name = text_end() - label - (label > 0 ? drawing.scaled(8) : 0) - margin();
    draw_name(name);
    const bool overlay = drawing.scene.options.show == Show::overlay;
    for (std::size_t i = 0; i < band.rows.size(); ++i) {
      const PlacedRow& row = band.rows[i];
      if (row.lane < 0) {
        const CurveLane& lane = group.curves[static_cast<std::size_t>(row.row)];
        const bool first = std::none_of(
            band.rows.begin(), band.rows.begin() + static_cast<std::ptrdiff_t>(i),
            [&](const PlacedRow& other) { return other.lane < 0 && other.y == row.y; });
        if (first) {
          draw_label(lane.label, row.y, row.height, label, drawing.palette.faint_text);
        }
        continue;
      }
      const Lane& lane = group.lanes[static_cast<std::size_t>(row.lane)];
      if (lane.label.empty()) continue;
      const Rgb colour = drawing.colour_of_trace(lane.trace);
      const Cut seen = band.cut.of(row.y, row.height);
      if (seen.height() > 0) {
        drawing.picture.list.covers.push_back({.x = drawing.gutter - side_width(),
                                               .y = seen.top,
                                               .width = side_width() - drawing.scaled(1),
                                               .height = seen.height(),
                                               .fill = colour});
      }
      if (row.row > 0) continue;
      // Lanes in front of each other share the height.
      const auto same_kind = [&](const PlacedRow& other) {
        return overlay && other.lane >= 0 && other.row == 0 &&
               group.lanes[static_cast<std::size_t>(other.lane)].kind == lane.kind;
      };
      const auto sharing = static_cast<int>(std::ranges::count_if(band.rows, same_kind));
      if (sharing <= 1) {
        draw_label(label_of_lane(lane), row.y, row.height, label, colour);
        continue;
      }
      const auto behind = std::ranges::find_if(band.rows, same_kind);
      const auto place = static_cast<int>(
          std::count_if(behind, band.rows.begin() + static_cast<std::ptrdiff_t>(i), same_kind));
      const int height = behind->height / sharing;
      draw_label(label_of_lane(lane), behind->y + place * height, height, label, colour);
    }
  }
};

}  // namespace

void draw_gutter(Drawing& drawing) {
  auto& covers = drawing.picture.list.covers;
  const Palette& palette = drawing.palette;
  covers.push_back({.x = 0,
                    .y = drawing.plot.top,
                    .width = drawing.gutter,
                    .height = drawing.plot.height(),
                    .fill = palette.gutter});
  for (const Band& band : drawing.bands) {
    const Cut seen = band.cut.of(band.placed.y, band.placed.height);
    if (seen.height() == 0) continue;
    const int bottom = band.placed.y + band.placed.height;
    if (bottom <= seen.bottom) {
      covers.push_back({.x = 0,
                        .y = bottom - 1,
                        .width = drawing.canvas.width,
                        .height = 1,
                        .fill = palette.grid});
    }
    GutterDrawer{drawing, band, drawing.scene.groups[static_cast<std::size_t>(band.placed.group)]}
        .draw();
  }
  if (drawing.picture.pinned_height > 0) {
    const int height = drawing.scaled(3);
    const Cut seen =
        drawing.plot.of(drawing.plot.top + drawing.picture.pinned_height - height, height);
    if (seen.height() == 0) return;
    covers.push_back({.x = 0,
                      .y = seen.top,
                      .width = drawing.canvas.width,
                      .height = seen.height(),
                      .fill = mix(palette.grid, palette.faint_text, 128)});
  }
}

}  // namespace pipesim::gui
