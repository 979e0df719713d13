#include <fmt/format.h>

#include <algorithm>

#include "gui/layout/parts.h"
#include "traces/base/text.h"
#include "traces/bubbles.h"

namespace pipesim::gui {
namespace {

constexpr int max_frames = 300;
// Beside a label to the bar's edges, both together and at least: most letters are
// narrower than the widest, by which labels are measured.
constexpr int label_gaps = 2;

Shades faded(const Shades& shades, Rgb ground, int share) {
  Shades made{};
  std::ranges::transform(shades, made.begin(),
                         [&](Rgb shade) { return mix(shade, ground, share); });
  return made;
}

// "TOP_BACKWARD2", "TB2"; "READ2 waits", "waits"; "call TOP2", "call".
std::vector<std::string> input_names_of(const OpenInput& input, Ref ref, std::string whole) {
  const InputSlice& slice = input.slices[ref];
  if (slice.role == InputRole::wait) return {std::move(whole), "waits"};
  if (slice.role == InputRole::call) return {std::move(whole), "call"};
  const Action& action = input.called_by(slice).action;
  std::string initials;
  for (const std::string_view word : split(kind_name(action.kind), '_')) {
    initials += word.front();
  }
  return {std::move(whole), initials + std::to_string(action.microbatch), initials};
}

// What a bar may be called, the longest name first.
std::vector<std::string> names_of(const Drawing& drawing, const LabelPlace& place) {
  if (is_bubble(place.shade)) {
    const auto name = bubble_names[static_cast<std::size_t>(place.shade - first_bubble_shade)];
    return {fmt::format("{} {}", name, format_time(place.length_ns)), std::string(name)};
  }
  const OpenTrace* trace = drawing.trace(place.trace);
  if (trace == nullptr || place.ref == no_ref) return {};
  const std::string whole = label_of(*trace, place.ref);
  if (trace->input) return input_names_of(*trace->input, place.ref, whole);
  std::vector<std::string> names{whole};
  if (trace->run) {  // without its stage
    const std::size_t kind = whole.find_first_not_of("0123456789");
    if (kind != std::string::npos && kind > 0) names.push_back(whole.substr(kind));
  } else {
    names.push_back(drawing.elided(whole, place.width - drawing.scaled(label_gaps)));
  }
  return names;
}

struct RowDrawer {
  Drawing& drawing;
  const Band& band;

  void add_strip(DrawList::Strip strip) const {
    const Cut seen = band.cut.of(strip.y, strip.height);
    const int height = seen.height();
    if (height == 0) return;
    if (height < strip.height) {
      const int above = seen.top - strip.y;
      for (auto& part : strip.parts) part.top = std::max(part.top - above, 0);
      std::erase_if(strip.parts, [height](const auto& part) { return part.top >= height; });
      strip.y = seen.top;
      strip.height = height;
    }
    drawing.picture.list.strips.push_back(std::move(strip));
  }

  void add_labels(const Lane& lane, const BarRow& row, const PlacedRow& placed,
                  const Shades& shades, const std::vector<WideBar>& wide, bool faint) const {
    if (!drawing.has_room_for_text(placed.height)) return;
    if (!band.cut.holds(placed.y, placed.height)) return;
    const int least = drawing.canvas.char_width + drawing.scaled(label_gaps) - 1;
    for (const WideBar& bar : wide) {
      if (bar.last - bar.first < least) continue;
      const Bar whole = row[bar.bar];
      if (faint && lane.emphasis.at(whole.start_ns)) continue;  // labelled by that
      drawing.labels.push_back({drawing.left() + bar.first, placed.y, bar.last - bar.first,
                                placed.height, lane.trace, whole.ref, whole.shade,
                                shades[whole.shade], whole.end_ns - whole.start_ns, faint});
    }
  }

  void add_frames(const PlacedRow& placed, const std::vector<WideBar>& wide) const {
    int left = max_frames;
    for (const WideBar& bar : wide) {
      if (left-- == 0) break;
      drawing.add_box(band.cut, {.x = drawing.left() + bar.first,
                                 .y = placed.y,
                                 .width = bar.last - bar.first,
                                 .height = placed.height,
                                 .filled = false,
                                 .framed = true,
                                 .frame = drawing.palette.text});
    }
  }

  // Draws a row upon `columns`, which hold what is behind it, and leaves there how it
  // looks at its top. `share` of 256 tells how much of it fades.
  void draw(const PlacedRow& placed, std::vector<Rgb>& columns, int share, bool labelled) const {
    const Lane& lane = drawing.scene.groups[static_cast<std::size_t>(placed.group)]
                           .lanes[static_cast<std::size_t>(placed.lane)];
    const BarRow& row = lane.rows[static_cast<std::size_t>(placed.row)];
    const bool emphasises = drawing.scene.emphasises && placed.row == 0;
    RowPaint paint{.shades = drawing.palette.shades,
                   .offset_ns = lane.offset_ns,
                   .least_wide = drawing.scaled(4),
                   .edge = 150,
                   .edge_colour = band.ground};
    std::vector<WideBar> wide;
    paint.shades = faded(drawing.palette.shades, band.ground, emphasises ? 190 : share);
    DrawList::Strip strip{drawing.left(), placed.y, placed.height, std::move(columns), {}};
    paint_row(row, paint, drawing.times, strip, &wide);
    if (labelled) add_labels(lane, row, placed, paint.shades, wide, emphasises);
    if (emphasises) {
      wide.clear();
      paint.shades = drawing.palette.shades;
      paint_row(lane.emphasis, paint, drawing.times, strip, &wide);
      if (labelled) add_labels(lane, lane.emphasis, placed, paint.shades, wide, false);
      add_frames(placed, wide);
    }
    columns = strip.columns;
    if (drawing.scene.options.critical && placed.row == 0 && !lane.critical.empty()) {
      const int height = std::min(drawing.scaled(3), placed.height / 2);
      DrawList::Strip path{strip.x, placed.y + placed.height - height, height, columns, {}};
      for (const auto& part : strip.parts) {  // what is lowest
        std::fill_n(path.columns.begin() + part.column, part.width, part.colour);
      }
      add_strip(std::move(strip));
      paint.shades.fill(drawing.palette.shades[critical_shade]);
      paint.edge = 0;
      paint_row(lane.critical, paint, drawing.times, path);
      add_strip(std::move(path));
      return;
    }
    add_strip(std::move(strip));
  }
};

}  // namespace

void draw_rows(Drawing& drawing, const Band& band) {
  const Group& group = drawing.scene.groups[static_cast<std::size_t>(band.placed.group)];
  const auto kind_of = [&](const PlacedRow& row) {
    return group.lanes[static_cast<std::size_t>(row.lane)].kind;
  };
  const bool overlay = drawing.scene.options.show == Show::overlay;
  const RowDrawer drawer{drawing, band};
  std::vector<Rgb> ground(static_cast<std::size_t>(drawing.picture.viewport.width), band.ground);
  for (const int column : drawing.grid) {
    ground[static_cast<std::size_t>(column)] = drawing.palette.grid;
  }
  std::vector<Rgb> columns;
  for (std::size_t i = 0; i < band.rows.size(); ++i) {
    const PlacedRow& row = band.rows[i];
    if (row.lane < 0 || band.cut.of(row.y, row.height).height() == 0) continue;
    const auto in_front = [&](const PlacedRow& other) {
      return overlay && other.lane > row.lane && other.row == 0 && kind_of(other) == kind_of(row);
    };
    const bool is_behind = row.row == 0 && std::ranges::any_of(band.rows, in_front);
    const bool is_in_front =
        overlay && row.row == 0 && std::ranges::any_of(band.rows, [&](const PlacedRow& other) {
          return other.lane >= 0 && other.lane < row.lane && other.row == 0 &&
                 kind_of(other) == kind_of(row);
        });
    if (is_in_front) continue;  // drawn with what is behind it
    columns = ground;
    drawer.draw(row, columns, is_behind ? 120 : 0, !is_behind);
    if (!is_behind) continue;
    for (const PlacedRow& other : band.rows) {
      if (other.lane >= 0 && in_front(other)) drawer.draw(other, columns, 0, true);
    }
  }
}

void draw_labels(Drawing& drawing) {
  auto& places = drawing.labels;
  if (places.size() > max_labels) {
    std::ranges::stable_sort(places, std::greater(), &LabelPlace::width);
  }
  int drawn = 0;
  for (const LabelPlace& place : places) {
    if (drawn == max_labels) {
      ++drawing.picture.hidden_labels;
      continue;
    }
    // Bars that are equally long have room for the same, wherever pixels begin.
    const double exact =
        static_cast<double>(place.length_ns) / drawing.picture.viewport.ns_per_pixel();
    int room = std::min(place.width + 1, static_cast<int>(exact)) - drawing.scaled(label_gaps);
    const OpenTrace* trace = drawing.trace(place.trace);
    if (trace != nullptr && trace->run && place.ref != no_ref) {
      // W is half as wide again as other letters are, and GRAD_NORM has some of its kind.
      const Kind kind = trace->run->spans[place.ref].action.kind;
      if (kind == Kind::W) room -= drawing.scaled(4);
      if (!takes_microbatch(kind)) room -= drawing.scaled(8);
    }
    for (std::string& name : names_of(drawing, place)) {
      if (name.empty() || drawing.text_width(name) > room) continue;
      const Rgb colour = is_bubble(place.shade) || place.faint ? drawing.palette.faint_text
                         : is_light(place.ground)              ? drawing.palette.on_bar
                                                               : drawing.palette.on_dark_bar;
      drawing.picture.list.texts.push_back({.x = place.x,
                                            .y = place.y,
                                            .width = place.width,
                                            .height = place.height,
                                            .colour = colour,
                                            .align = DrawList::Align::centre,
                                            .text = std::move(name)});
      ++drawn;
      break;
    }
  }
}

}  // namespace pipesim::gui
