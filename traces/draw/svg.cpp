#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "traces/draw/draw_list.h"
#include "traces/draw/text_buffer.h"
#include "traces/draw/xml_text.h"

namespace pipesim {
namespace {

void end_element(Buffer& out, const char* name, const std::string& title) {
  if (title.empty()) {
    add(out, "/>\n");
  } else {
    add(out, "><title>{}</title></{}>\n", xml_text(title), name);
  }
}

void add_box(Buffer& out, const DrawList::Box& box) {
  if (box.filled) {
    add(out, R"(<rect x="{}" y="{}" width="{}" height="{}" fill="#{:06x}")", box.x, box.y,
        box.width, box.height, box.fill);
    if (box.opacity != 255) add(out, R"( fill-opacity="{:.3f}")", box.opacity / 255.0);
    end_element(out, "rect", box.title);
  }
  if (box.framed && box.width > 0 && box.height > 0) {
    add(out,
        R"(<rect x="{}.5" y="{}.5" width="{}" height="{}" fill="none" stroke="#{:06x}"/>)"
        "\n",
        box.x, box.y, box.width - 1, box.height - 1, box.frame);
  }
}

void add_strip(Buffer& out, const DrawList::Strip& strip) {
  const auto add_rect = [&](std::size_t x, std::size_t width, int top, Rgb colour) {
    add(out,
        R"(<rect x="{}" y="{}" width="{}" height="{}" fill="#{:06x}"/>)"
        "\n",
        strip.x + static_cast<int>(x), strip.y + top, width, strip.height - top, colour);
  };
  for (std::size_t i = 0; i < strip.columns.size();) {
    std::size_t end = i + 1;
    while (end < strip.columns.size() && strip.columns[end] == strip.columns[i]) ++end;
    add_rect(i, end - i, 0, strip.columns[i]);
    i = end;
  }
  for (const auto& part : strip.parts) {
    add_rect(static_cast<std::size_t>(part.column), static_cast<std::size_t>(part.width), part.top,
             part.colour);
  }
}

void add_area(Buffer& out, const DrawList::Area& area) {
  const auto top_of = [&](std::size_t i) { return area.y + area.tops[i]; };
  for (std::size_t i = 0; i < area.tops.size();) {
    if (area.tops[i] >= area.height) {
      ++i;
      continue;
    }
    // A part without a hole, as steps.
    const int left = area.x + static_cast<int>(i);
    std::string steps = fmt::format("M{} {}", left, top_of(i));
    for (; i < area.tops.size() && area.tops[i] < area.height; ++i) {
      const bool last = i + 1 == area.tops.size() || area.tops[i + 1] != area.tops[i];
      if (last) steps += fmt::format("H{}", area.x + static_cast<int>(i) + 1);
      if (last && i + 1 < area.tops.size() && area.tops[i + 1] < area.height) {
        steps += fmt::format("V{}", top_of(i + 1));
      }
    }
    if (area.filled) {
      add(out,
          R"(<path d="{}V{}H{}Z" fill="#{:06x}"/>)"
          "\n",
          steps, area.y + area.height, left, area.fill);
    }
    add(out,
        R"(<path d="{}" fill="none" stroke="#{:06x}"/>)"
        "\n",
        steps, area.line);
  }
}

void add_line(Buffer& out, const DrawList::Line& line) {
  add(out, R"(<line x1="{}.5" y1="{}.5" x2="{}.5" y2="{}.5" stroke="#{:06x}" stroke-width="{}")",
      line.x1, line.y1, line.x2, line.y2, line.colour, line.width);
  if (line.dashed) add(out, R"( stroke-dasharray="6 4")");
  end_element(out, "line", line.title);
  const double x = line.x2 - line.x1;
  const double y = line.y2 - line.y1;
  const double length = std::hypot(x, y);
  if (!line.arrow || length < 1) return;
  const double size = 3 + 2 * line.width;
  const double back_x = line.x2 + 0.5 - x / length * size;
  const double back_y = line.y2 + 0.5 - y / length * size;
  const double side_x = y / length * size / 2.5;
  const double side_y = x / length * size / 2.5;
  add(out,
      R"(<path d="M{}.5 {}.5L{:.2f} {:.2f}L{:.2f} {:.2f}Z" fill="#{:06x}"/>)"
      "\n",
      line.x2, line.y2, back_x + side_x, back_y - side_y, back_x - side_x, back_y + side_y,
      line.colour);
}

void add_text(Buffer& out, const DrawList::Text& text, int font_pixels) {
  const bool right = text.align == DrawList::Align::right;
  const bool centre = text.align == DrawList::Align::centre;
  const char* anchor = right ? "end" : centre ? "middle" : "start";
  const int x = text.x + (right ? text.width : centre ? text.width / 2 : 0);
  add(out,
      R"(<text x="{}" y="{:.1f}" text-anchor="{}" fill="#{:06x}"{}>{}</text>)"
      "\n",
      x, text.y + text.height / 2.0 + font_pixels * 0.36, anchor, text.colour,
      text.bold ? R"( font-weight="bold")" : "", xml_text(text.text));
}

}  // namespace

std::string to_svg(const DrawList& list, int font_pixels, int scale) {
  const int letter_pixels = font_pixels * scale;
  Buffer out;
  add(out,
      R"(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{4}" height="{5}" viewBox="0 0 {0} {1}" font-family="DejaVu Sans, sans-serif" font-size="{2}" xml:space="preserve">
<rect width="{0}" height="{1}" fill="#{3:06x}"/>
)",
      list.width, list.height, letter_pixels, list.background, list.width / scale,
      list.height / scale);
  add(out, "<g shape-rendering=\"crispEdges\">\n");
  for (const auto& box : list.grounds) add_box(out, box);
  for (const auto& strip : list.strips) add_strip(out, strip);
  add(out, "</g>\n");
  for (const auto& area : list.areas) add_area(out, area);
  for (const auto& box : list.boxes) add_box(out, box);
  for (const auto& line : list.lines) add_line(out, line);
  for (const auto& text : list.texts) add_text(out, text, letter_pixels);
  for (const auto& box : list.covers) add_box(out, box);
  for (const auto& text : list.cover_texts) add_text(out, text, letter_pixels);
  add(out, "</svg>\n");
  return fmt::to_string(out);
}

}  // namespace pipesim
