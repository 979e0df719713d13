#include "gui/layout/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "gui/layout/parts.h"

namespace pipesim::gui {
namespace {

// Logical pixels of a work row.
constexpr int min_work = 7;
constexpr int max_work = 64;
constexpr int scrolled_work = 13;  // where not all groups fit at any height

RowHeights heights_of(const Drawing& drawing, int work) {
  const bool overlay = drawing.scene.options.show == Show::overlay;
  RowHeights heights;
  heights.work = drawing.scaled(overlay ? work * 5 / 4 : work);
  heights.transfers = drawing.scaled(std::max(std::clamp(work / 2, 5, 13), work * 3 / 8));
  heights.slices = drawing.scaled(std::max(std::clamp(work, min_work, 18), work / 2));
  heights.curve = drawing.scaled(std::max(work >= 18 ? work + 16 : work + 5, 12));
  heights.gap = drawing.scaled(work >= 10 ? 2 : 1);
  heights.pad = drawing.scaled(work >= 24   ? std::max(9, work / 4)
                               : work >= 16 ? 6
                               : work >= 10 ? 4
                                            : 2);
  heights.least_group = drawing.canvas.text_height + 2;
  return heights;
}

int height_of(const RowHeights& heights, LaneKind kind) {
  switch (kind) {
    case LaneKind::transfers: return heights.transfers;
    case LaneKind::slices: return heights.slices;
    default: return heights.work;
  }
}

// A group's rows from `y` on, and the group's height.
std::vector<PlacedRow> place_rows(const Drawing& drawing, const RowHeights& heights, int group,
                                  int y, int& height) {
  const Group& all = drawing.scene.groups[static_cast<std::size_t>(group)];
  const bool overlay = drawing.scene.options.show == Show::overlay;
  std::vector<PlacedRow> rows;
  int below = y + heights.pad;
  for (std::size_t i = 0; i < all.lanes.size(); ++i) {
    const Lane& lane = all.lanes[i];
    const int row_height = height_of(heights, lane.kind);
    const auto number = static_cast<int>(i);
    const auto behind = std::ranges::find_if(rows, [&](const PlacedRow& row) {
      return overlay && row.row == 0 &&
             all.lanes[static_cast<std::size_t>(row.lane)].kind == lane.kind;
    });
    if (behind != rows.end()) {  // in front of the first of its kind
      const PlacedRow first = *behind;
      rows.push_back({group, number, 0, first.y + first.height / 4, (first.height + 1) / 2});
      continue;
    }
    for (std::size_t row = 0; row < lane.rows.size(); ++row) {
      rows.push_back({group, number, static_cast<int>(row), below, row_height});
      below += row_height + heights.gap;
    }
  }
  if (drawing.view.curves) {
    std::vector<std::string_view> labels;  // of the same label share a place
    const int top = below + heights.gap;
    for (std::size_t i = 0; i < all.curves.size(); ++i) {
      auto found = std::ranges::find(labels, all.curves[i].label);
      if (found == labels.end()) {
        labels.push_back(all.curves[i].label);
        found = labels.end() - 1;
      }
      const int place = static_cast<int>(found - labels.begin());
      rows.push_back({group, -1, static_cast<int>(i),
                      top + place * (heights.curve + 2 * heights.gap), heights.curve});
    }
    if (!labels.empty()) {
      below = top + static_cast<int>(labels.size()) * (heights.curve + 2 * heights.gap);
    }
  }
  height = std::max(below - heights.gap + heights.pad - y, heights.least_group);
  return rows;
}

int height_of_groups(const Drawing& drawing, const RowHeights& heights,
                     const std::vector<int>& groups) {
  int sum = 0;
  for (const int group : groups) {
    int height = 0;
    place_rows(drawing, heights, group, 0, height);
    sum += height;
  }
  return sum;
}

// Those that the filter lets through, pinned ones first; and how many those are.
std::vector<int> shown_groups(const Drawing& drawing, std::size_t& pinned) {
  const auto& groups = drawing.scene.groups;
  std::vector<int> shown;
  const auto add = [&](bool want_pinned) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (passes(groups[i], drawing.view.filter) &&
          drawing.view.pinned.contains(groups[i].name) == want_pinned) {
        shown.push_back(static_cast<int>(i));
      }
    }
  };
  add(true);
  pinned = shown.size();
  add(false);
  return shown;
}

int bold_width(const Drawing& drawing, std::string_view text) {
  return (drawing.text_width(text) * 6 + 4) / 5 + drawing.scaled(2);
}

int axis_width(const Drawing& drawing, const Group& group, const CurveLane& lane) {
  const CurveScale scale = scale_of(drawing, group, lane);
  return std::max(drawing.text_width(axis_text(lane, scale.most)),
                  drawing.text_width(axis_text(lane, scale.least)));
}

int gutter_width(const Drawing& drawing) {
  int name = 0;
  int label = 0;
  int axis = 0;  // of curves, with what they are
  for (const int number : drawing.groups) {
    const Group& group = drawing.scene.groups[static_cast<std::size_t>(number)];
    name = std::max(name, bold_width(drawing, name_in_a_line(group)));
    name = std::max(name, drawing.text_width(group.process));
    for (const Lane& lane : group.lanes) label = std::max(label, drawing.text_width(lane.label));
    for (const CurveLane& lane : group.curves) {
      const int width = std::min(drawing.text_width(lane.label),
                                 std::max(drawing.widest_label(), drawing.canvas.width / 5));
      // Of low rows a rank's name is beside it; a stream's, in two lines, is beside the values,
      // too.
      const int values = axis_width(drawing, group, lane);
      const int beside = group.rank >= 0 ? bold_width(drawing, group.name) : 0;
      const bool is_stream = !group.process.empty() && !group.lanes.empty();
      const int names = is_stream ? drawing.scaled(16) + std::max(bold_width(drawing, group.name),
                                                                  drawing.text_width(group.process))
                                  : 0;
      axis = std::max(axis, width + drawing.scaled(8) + std::max(values + names, beside));
    }
  }
  name = std::min(name, std::max(drawing.canvas.width / 6, 8 * drawing.canvas.char_width));
  label = std::min(label, drawing.widest_label());
  const int between = label > 0 ? drawing.scaled(8) : 0;
  return drawing.scaled(8) + std::max(name + between + label, axis) + drawing.scaled(10);
}

void place(Drawing& drawing, std::size_t pinned_count) {
  const std::vector<int>& groups = drawing.groups;
  Picture& picture = drawing.picture;
  int low = min_work;
  int high = max_work;
  const auto fits = [&](int work) {
    return height_of_groups(drawing, heights_of(drawing, work), groups) <= drawing.plot.height();
  };
  if (!fits(low)) {
    high = scrolled_work;
  } else {
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      fits(middle) ? low = middle : high = middle - 1;
    }
  }
  drawing.heights = heights_of(drawing, high);

  int y = drawing.plot.top;
  const auto add = [&](std::size_t index, const Cut& cut) {
    Band band;
    band.placed = {groups[index], y, 0, index < pinned_count};
    band.cut = cut;
    band.ground = index % 2 == 0 ? drawing.palette.background : drawing.palette.band;
    band.rows = place_rows(drawing, drawing.heights, groups[index], y, band.placed.height);
    y += band.placed.height;
    drawing.bands.push_back(std::move(band));
  };
  for (std::size_t i = 0; i < pinned_count; ++i) add(i, drawing.plot);
  if (pinned_count > 0) y += drawing.scaled(3);
  picture.pinned_height = y - drawing.plot.top;

  const Cut moving{std::min(y, drawing.plot.bottom), drawing.plot.bottom};
  const std::vector<int> rest(groups.begin() + static_cast<std::ptrdiff_t>(pinned_count),
                              groups.end());
  picture.content_height = height_of_groups(drawing, drawing.heights, rest);
  const int most = std::max(picture.content_height - moving.height(), 0);
  y -= std::clamp(drawing.view.scroll, 0, most);
  for (std::size_t i = pinned_count; i < groups.size(); ++i) add(i, moving);

  for (const Band& band : drawing.bands) {
    picture.groups.push_back(band.placed);
    for (PlacedRow row : band.rows) {
      const Cut seen = band.cut.of(row.y, row.height);
      if (seen.height() == 0) continue;
      row.y = seen.top;
      row.height = seen.height();
      picture.rows.push_back(row);
    }
  }
  std::ranges::stable_sort(picture.rows, {}, &PlacedRow::y);
}

void draw_grounds(Drawing& drawing) {
  for (const Band& band : drawing.bands) {
    const Cut seen = band.cut.of(band.placed.y, band.placed.height);
    if (seen.height() == 0 || band.ground == drawing.palette.background) continue;
    drawing.picture.list.grounds.push_back({.x = drawing.left(),
                                            .y = seen.top,
                                            .width = drawing.picture.viewport.width,
                                            .height = seen.height(),
                                            .fill = band.ground});
  }
  for (const int column : drawing.grid) {
    drawing.picture.list.grounds.push_back({.x = drawing.left() + column,
                                            .y = drawing.plot.top,
                                            .width = 1,
                                            .height = drawing.plot.height(),
                                            .fill = drawing.palette.grid});
  }
}

void draw_hint(Drawing& drawing, std::string text) {
  const int height = drawing.canvas.text_height;
  drawing.picture.list.texts.push_back({.x = 0,
                                        .y = (drawing.canvas.height - height) / 2,
                                        .width = drawing.canvas.width,
                                        .height = height,
                                        .colour = drawing.palette.faint_text,
                                        .align = DrawList::Align::centre,
                                        .text = std::move(text)});
}

}  // namespace

int letters(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

int Drawing::widest_label() const { return std::max(12 * canvas.char_width, canvas.width / 8); }

int Drawing::text_width(std::string_view text) const { return letters(text) * canvas.char_width; }

std::string Drawing::elided(std::string_view text, int width) const {
  if (text_width(text) <= width) return std::string(text);
  int room = width / std::max(canvas.char_width, 1) - 1;
  if (room < 2) return {};
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) continue;
    if (room-- == 0) break;
  }
  return std::string(text.substr(0, end)) + "\u2026";
}

const OpenTrace* Drawing::trace(int index) const {
  if (index < 0 || static_cast<std::size_t>(index) >= document.traces.size()) return nullptr;
  return document.traces[static_cast<std::size_t>(index)].get();
}

Rgb Drawing::colour_of_trace(int index) const {
  if (const auto side = document.side_of(index)) {
    return *side == predicted_side ? palette.predicted : palette.measured;
  }
  const OpenTrace* open = trace(index);
  return open != nullptr && open->source() == Source::predicted ? palette.predicted
                                                                : palette.measured;
}

void Drawing::add_box(const Cut& cut, DrawList::Box box) {
  const int from = std::max(box.x, left());
  const int to = std::min(box.x + box.width, right());
  const Cut seen = cut.of(box.y, box.height);
  if (from >= to || seen.height() == 0) return;
  box.x = from;
  box.width = to - from;
  box.y = seen.top;
  box.height = seen.height();
  picture.list.boxes.push_back(box);
}

void Drawing::add_line(const Cut& cut, DrawList::Line line) {
  // Liang and Barsky: the part of the line, from 0 to 1, that is within.
  double from = 0;
  double to = 1;
  const double dx = line.x2 - line.x1;
  const double dy = line.y2 - line.y1;
  const auto keep = [&](double along, double room) {
    if (along == 0) return room >= 0;
    const double at = room / along;
    along < 0 ? from = std::max(from, at) : to = std::min(to, at);
    return from <= to;
  };
  if (!keep(-dx, line.x1 - left()) || !keep(dx, right() - 1 - line.x1)) return;
  if (!keep(-dy, line.y1 - cut.top) || !keep(dy, cut.bottom - 1 - line.y1)) return;
  const auto at = [](int start, double along) { return static_cast<int>(start + along + 0.5); };
  if (to < 1) line.arrow = false;
  const DrawList::Line whole = line;
  line.x2 = at(whole.x1, dx * to);
  line.y2 = at(whole.y1, dy * to);
  line.x1 = at(whole.x1, dx * from);
  line.y1 = at(whole.y1, dy * from);
  picture.list.lines.push_back(line);
}

Picture layout(const Document& document, const Scene& scene, const View& view, const Canvas& canvas,
               const Palette& palette) {
  Drawing drawing{.document = document,
                  .scene = scene,
                  .view = view,
                  .canvas = canvas,
                  .palette = palette,
                  .picture = {},
                  .groups = {},
                  .scale_of_bytes = {},
                  .gutter = 0,
                  .plot = {},
                  .heights = {},
                  .bands = {},
                  .times = {},
                  .grid = {},
                  .labels = {}};
  Picture& picture = drawing.picture;
  picture.list.width = canvas.width;
  picture.list.height = canvas.height;
  picture.list.background = palette.background;
  picture.viewport = {view.range, 0, std::max(canvas.width, 1)};
  picture.reach = canvas.scaled(3);

  std::size_t pinned = 0;
  drawing.groups = shown_groups(drawing, pinned);
  if (drawing.groups.empty()) {
    draw_hint(drawing, scene.groups.empty()
                           ? "Open a trace: Ctrl+O, or drop files here"
                           : fmt::format("No group has \"{}\" in its name", view.filter));
    return std::move(drawing.picture);
  }
  drawing.scale_of_bytes = scale_of_bytes(drawing);
  drawing.gutter = std::min(gutter_width(drawing), canvas.width / 2);
  const int margin = drawing.scaled(8);
  picture.viewport.x = drawing.gutter;
  picture.viewport.width = std::max(canvas.width - drawing.gutter - margin, 1);
  picture.ruler_height = ruler_height(drawing);
  picture.legend_height = legend_height(drawing);
  drawing.plot = {picture.ruler_height,
                  std::max(canvas.height - picture.legend_height, picture.ruler_height)};
  drawing.times = column_times(picture.viewport);
  place(drawing, pinned);

  draw_axis(drawing);
  draw_grounds(drawing);
  for (const Band& band : drawing.bands) {
    if (band.cut.of(band.placed.y, band.placed.height).height() == 0) continue;
    draw_rows(drawing, band);
    draw_curves(drawing, band);
  }
  draw_labels(drawing);
  if (view.arrows) draw_arrows(drawing);
  draw_picked(drawing);
  draw_gutter(drawing);
  draw_legend(drawing);
  return std::move(drawing.picture);
}

}  // namespace pipesim::gui
