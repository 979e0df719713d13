// What stands beside the rows: names of groups and lanes.
#include <algorithm>

#include "gui/layout/parts.h"

namespace pipesim::gui {
namespace {

struct GutterDrawer {
  Drawing& drawing;
  const Band& band;
  const Group& group;
  Cut name = {};     // rows of pixels that its name has
  int name_end = 0;  // where that ends, and a gap

  int margin() const { return drawing.scaled(8); }
  int side_width() const { return drawing.scaled(4); }
  int text_end() const { return drawing.gutter - side_width() - drawing.scaled(6); }

  int label_width() const {
    int width = 0;
    for (const Lane& lane : group.lanes) {
      width = std::max(width, drawing.text_width(label_of_lane(lane)));
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
  void draw_name(int width) {
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
    name = {y, y + block};
    const std::string text = two_lines ? group.name : name_in_a_line(group);
    const int letters = std::max(drawing.text_width(text) * 6 / 5,
                                 two_lines ? drawing.text_width(group.process) : 0);
    name_end = margin() + std::min(letters, width) + drawing.scaled(8);
    add_text({.x = margin(),
              .y = y,
              .width = width,
              .height = height,
              .colour = drawing.palette.text,
              .bold = true,
              .text = drawing.elided(text, width * 5 / 6)});
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

  // What a curve is, and what the ends of its axis stand for, as far as there is room.
  void draw_axis_of(const CurveLane& lane, const PlacedRow& row) const {
    const CurveScale scale = scale_of(drawing, group, lane);
    const int letters = drawing.canvas.text_height;
    const int room_above = headroom(drawing, row.height);
    const int top = row.y + std::max(room_above - letters / 2, 0);
    // Half below the axis' end, where nothing else is.
    const int below = room_above > 0 ? std::min(letters / 2, drawing.heights.pad) : 0;
    const int bottom = row.y + row.height - letters + below;
    // Not over the group's name, which stays in sight.
    const auto from = [&](int y, int height) {
      return name.of(y, height).height() > 0 ? name_end : margin();
    };
    int width = 0;
    const auto draw_value = [&](double value, int y) {
      const std::string text = axis_text(lane, value);
      const int own = drawing.text_width(text);
      if (text_end() - own < from(y, letters)) return;
      width = std::max(width, own);
      add_text({.x = text_end() - own,
                .y = y,
                .width = own,
                .height = letters,
                .colour = drawing.palette.faint_text,
                .align = DrawList::Align::right,
                .text = text});
    };
    if (row.height >= letters) draw_value(scale.most, top);
    if (bottom >= top + letters) draw_value(scale.least, bottom);
    const int left = from(row.y, row.height);
    const int room = text_end() - width - (width > 0 ? drawing.scaled(8) : 0) - left;
    if (!drawing.has_room_for_text(row.height) || room <= 0) return;
    add_text({.x = left,
              .y = row.y,
              .width = room,
              .height = row.height,
              .colour = drawing.palette.faint_text,
              .align = DrawList::Align::right,
              .text = drawing.elided(lane.label, room)});
  }

  void draw() {
    const int label = label_width();
    const int name_width = text_end() - label - (label > 0 ? drawing.scaled(8) : 0) - margin();
    draw_name(name_width);
    const bool overlay = drawing.scene.options.show == Show::overlay;
    for (std::size_t i = 0; i < band.rows.size(); ++i) {
      const PlacedRow& row = band.rows[i];
      if (row.lane < 0) {
        const CurveLane& lane = group.curves[static_cast<std::size_t>(row.row)];
        const bool first = std::none_of(
            band.rows.begin(), band.rows.begin() + static_cast<std::ptrdiff_t>(i),
            [&](const PlacedRow& other) { return other.lane < 0 && other.y == row.y; });
        if (first) draw_axis_of(lane, row);
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
