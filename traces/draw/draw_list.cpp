#include "traces/draw/draw_list.h"

#include <fmt/format.h>

#include <iterator>

#include "traces/base/text.h"
#include "traces/draw/text_buffer.h"

namespace pipesim {
namespace {

void add_box(Buffer& out, const char* layer, const DrawList::Box& box) {
  add(out, "{} {},{} {}x{}", layer, box.x, box.y, box.width, box.height);
  if (box.filled) add(out, " fill {:06x}", box.fill);
  if (box.opacity != 255) add(out, " opacity {}", box.opacity);
  if (box.framed) add(out, " frame {:06x}", box.frame);
  add(out, "\n");
}

void add_text(Buffer& out, const char* layer, const DrawList::Text& text) {
  const char* align = text.align == DrawList::Align::left     ? "left"
                      : text.align == DrawList::Align::centre ? "centre"
                                                              : "right";
  add(out, "{} {},{} {}x{} {:06x} {}{} {}\n", layer, text.x, text.y, text.width, text.height,
      text.colour, align, text.bold ? " bold" : "", printable(text.text));
}

// "3*a 2*b": equal neighbours as one.
template <typename Values, typename Write>
void add_runs(Buffer& out, const Values& values, Write&& write) {
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i + 1;
    while (end < values.size() && values[end] == values[i]) ++end;
    add(out, " {}*", end - i);
    write(values[i]);
    i = end;
  }
  add(out, "\n");
}

}  // namespace

void DrawList::clear() { *this = DrawList{}; }

std::string to_text(const DrawList& list) {
  Buffer out;
  add(out, "picture {}x{} background {:06x}\n", list.width, list.height, list.background);
  for (const auto& box : list.grounds) add_box(out, "ground", box);
  for (const auto& strip : list.strips) {
    add(out, "strip {},{} {}x{}", strip.x, strip.y, strip.columns.size(), strip.height);
    add_runs(out, strip.columns, [&](Rgb colour) { add(out, "{:06x}", colour); });
    for (const auto& part : strip.parts) {
      add(out, "  from {},{} {} wide {:06x}\n", part.column, part.top, part.width, part.colour);
    }
  }
  for (const auto& area : list.areas) {
    add(out, "area {},{} {}x{} line {:06x}", area.x, area.y, area.tops.size(), area.height,
        area.line);
    if (area.filled) add(out, " fill {:06x}", area.fill);
    add_runs(out, area.tops, [&](std::int16_t top) { add(out, "{}", top); });
  }
  for (const auto& box : list.boxes) add_box(out, "box", box);
  for (const auto& line : list.lines) {
    add(out, "line {},{} {},{} {:06x} width {}{}{}\n", line.x1, line.y1, line.x2, line.y2,
        line.colour, line.width, line.dashed ? " dashed" : "", line.arrow ? " arrow" : "");
  }
  for (const auto& text : list.texts) add_text(out, "text", text);
  for (const auto& box : list.covers) add_box(out, "cover", box);
  for (const auto& text : list.cover_texts) add_text(out, "cover text", text);
  return fmt::to_string(out);
}

}  // namespace pipesim
