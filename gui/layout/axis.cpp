// The ruler, and what of the time axis is marked: ticks, marks, the selected area.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "gui/layout/parts.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

struct Unit {
  std::int64_t ns;
  std::string_view name;
};
constexpr std::array<Unit, 4> units{
    {{1, "ns"}, {1'000, "us"}, {1'000'000, "ms"}, {1'000'000'000, "s"}}};

Ticks axis_ticks(const Drawing& drawing) {
  const Viewport& viewport = drawing.picture.viewport;
  const Alignment alignment = drawing.scene.options.alignment;
  const auto with_room = [&](int pixels) {
    Ticks made = ticks(viewport, pixels);
    if (alignment == Alignment::slot && made.step_ns < slot_ns) {
      made = {(viewport.range.from_ns / slot_ns) * slot_ns, slot_ns};
    }
    return made;
  };
  const Ticks first = with_room(drawing.scaled(60));
  int width = 0;
  for (const std::int64_t time : {viewport.range.from_ns, viewport.range.to_ns}) {
    width = std::max(width, drawing.text_width(axis_text(time, first.step_ns, alignment)));
  }
  return with_room(std::max(drawing.scaled(60), width * 3 / 2 + drawing.scaled(10)));
}

// The next one after `time_ns`; none where that is too late for int64.
bool advance(std::int64_t& time_ns, std::int64_t step_ns) {
  return !__builtin_add_overflow(time_ns, step_ns, &time_ns);
}

void add_tick_text(Drawing& drawing, int x, std::string text) {
  const int width = drawing.text_width(text);
  if (width > drawing.right() - drawing.left()) return;
  const int left = std::clamp(x - width / 2, drawing.left(), drawing.right() - width);
  drawing.picture.list.cover_texts.push_back({.x = left,
                                              .y = drawing.scaled(2),
                                              .width = width,
                                              .height = drawing.canvas.text_height,
                                              .colour = drawing.palette.faint_text,
                                              .align = DrawList::Align::centre,
                                              .text = std::move(text)});
}

// On the ruler's second line, near `x`, unless another is there.
void add_note(Drawing& drawing, std::vector<std::pair<int, int>>& taken, int x, Rgb colour,
              const std::string& text) {
  const int width = drawing.text_width(text) + drawing.scaled(4);
  if (width > drawing.right() - drawing.left()) return;
  const int left = std::clamp(x - width / 2, drawing.left(), drawing.right() - width);
  for (const auto& [from, to] : taken) {
    if (left < to && left + width > from) return;
  }
  taken.emplace_back(left, left + width);
  drawing.picture.list.cover_texts.push_back({.x = left,
                                              .y = drawing.scaled(4) + drawing.canvas.text_height,
                                              .width = width,
                                              .height = drawing.canvas.text_height,
                                              .colour = colour,
                                              .align = DrawList::Align::centre,
                                              .text = text});
}

std::string length_text(std::int64_t ns, Alignment alignment) {
  if (alignment != Alignment::slot) return format_time(ns);
  return fmt::format("{:.1f} slots", static_cast<double>(ns) / slot_ns);
}

void draw_area(Drawing& drawing, std::vector<std::pair<int, int>>& taken) {
  if (!drawing.view.area) return;
  const TimeRange& area = *drawing.view.area;
  const Viewport& viewport = drawing.picture.viewport;
  const int from = viewport.x_of(area.from_ns);
  const int to = std::max(viewport.x_of(area.to_ns), from + 1);
  if (to <= drawing.left() || from >= drawing.right()) return;
  DrawList::Box box{.x = from,
                    .y = drawing.plot.top,
                    .width = to - from,
                    .height = drawing.plot.height(),
                    .fill = drawing.palette.area,
                    .opacity = 40};
  drawing.add_box(drawing.plot, box);
  box.opacity = 255;
  box.width = drawing.scaled(1);
  drawing.add_box(drawing.plot, box);
  box.x = to - box.width;
  drawing.add_box(drawing.plot, box);
  const int middle = std::max(from, drawing.left()) / 2 + std::min(to, drawing.right()) / 2;
  add_note(drawing, taken, middle, drawing.palette.area,
           length_text(area.length_ns(), drawing.scene.options.alignment));
}

void draw_marks(Drawing& drawing, std::vector<std::pair<int, int>>& taken) {
  const Viewport& viewport = drawing.picture.viewport;
  const Alignment alignment = drawing.scene.options.alignment;
  const auto step = std::max<std::int64_t>(std::llround(viewport.ns_per_pixel()), 1);
  const auto& marks = drawing.view.marks;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const int x = viewport.x_of(marks[i]);
    if (x < drawing.left() || x >= drawing.right()) continue;
    drawing.add_box(drawing.plot, {.x = x,
                                   .y = drawing.plot.top,
                                   .width = drawing.scaled(1),
                                   .height = drawing.plot.height(),
                                   .fill = drawing.palette.mark});
    drawing.picture.list.covers.push_back({.x = x,
                                           .y = drawing.plot.top - drawing.scaled(4),
                                           .width = drawing.scaled(1),
                                           .height = drawing.scaled(4),
                                           .fill = drawing.palette.mark});
    std::string text = axis_text(marks[i], step, alignment);
    if (i > 0) text += fmt::format(" (+{})", length_text(marks[i] - marks[i - 1], alignment));
    add_note(drawing, taken, x, drawing.palette.mark, text);
  }
}

}  // namespace

std::string axis_text(std::int64_t time_ns, std::int64_t step_ns, Alignment alignment) {
  const std::int64_t step = std::max<std::int64_t>(step_ns, 1);
  if (alignment == Alignment::slot) {
    if (step % slot_ns == 0) return fmt::format("slot {}", time_ns / slot_ns);
    return fmt::format("slot {:.1f}", static_cast<double>(time_ns) / slot_ns);
  }
  // The unit in which a step has at most one digit after the point, and larger
  // ones while the number is long.
  std::size_t unit = 0;
  while (unit + 1 < units.size() &&
         (step * 10 >= units[unit + 1].ns || std::abs(time_ns / units[unit].ns) >= 10'000)) {
    ++unit;
  }
  int digits = 0;
  for (std::int64_t part = units[unit].ns; part > step && digits < 9; part /= 10) ++digits;
  std::int64_t scale = 1;
  for (int i = 0; i < digits; ++i) scale *= 10;
  // In units of the last digit, rounded towards zero: exact, however late it is.
  const std::int64_t last = units[unit].ns / scale;
  const auto size =
      time_ns < 0 ? 0 - static_cast<std::uint64_t>(time_ns) : static_cast<std::uint64_t>(time_ns);
  const std::uint64_t value = size / static_cast<std::uint64_t>(last);
  const auto whole = value / static_cast<std::uint64_t>(scale);
  const auto rest = value % static_cast<std::uint64_t>(scale);
  const std::string sign = time_ns < 0 && value > 0 ? "-" : "";
  if (digits == 0) return fmt::format("{}{} {}", sign, whole, units[unit].name);
  return fmt::format("{}{}.{:0{}} {}", sign, whole, rest, digits, units[unit].name);
}

int ruler_height(const Drawing& drawing) {
  const bool notes = drawing.view.area.has_value() || !drawing.view.marks.empty();
  return drawing.scaled(9) + drawing.canvas.text_height +
         (notes ? drawing.canvas.text_height + drawing.scaled(2) : 0);
}

void draw_axis(Drawing& drawing) {
  DrawList& list = drawing.picture.list;
  const Palette& palette = drawing.palette;
  const Viewport& viewport = drawing.picture.viewport;
  list.covers.push_back({.x = 0,
                         .y = 0,
                         .width = drawing.canvas.width,
                         .height = drawing.plot.top,
                         .fill = palette.gutter});
  const Ticks made = axis_ticks(drawing);
  std::int64_t time = made.first_ns;
  do {
    const int x = viewport.x_of(time);
    if (x >= drawing.right()) break;
    if (x < drawing.left()) continue;
    drawing.grid.push_back(x - drawing.left());
    add_tick_text(drawing, x, axis_text(time, made.step_ns, drawing.scene.options.alignment));
    list.covers.push_back({.x = x,
                           .y = drawing.plot.top - drawing.scaled(5),
                           .width = 1,
                           .height = drawing.scaled(5),
                           .fill = palette.faint_text});
  } while (advance(time, made.step_ns));

  std::vector<std::pair<int, int>> taken;
  draw_area(drawing, taken);
  draw_marks(drawing, taken);
}

}  // namespace pipesim::gui
