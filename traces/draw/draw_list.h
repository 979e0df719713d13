// What to draw, independent of how: the window paints it,
// figures write it as SVG or PNG, and tests compare it as text.
//
// Coordinates are device pixels, y downwards. Layers are painted in the order of
// the members, and within a layer in their own order. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/draw/colours.h"

namespace pipesim {

struct DrawList {
  struct Box {
    int x = 0, y = 0, width = 0, height = 0;
    Rgb fill = 0;
    bool filled = true;
    bool framed = false;
    Rgb frame = 0;
    int opacity = 255;       // of the fill
    std::string title = {};  // tooltip in SVG viewers
  };
  // A row of a timeline: each pixel column has a colour at the top, and some have
  // other colours below it.
  struct Strip {
    struct Part {
      int column = 0;  // the first
      int width = 1;
      int top = 0;  // rows of pixels below the strip's; from there it goes to the bottom
      Rgb colour = 0;

      bool operator==(const Part&) const = default;
    };
    int x = 0, y = 0, height = 0;
    std::vector<Rgb> columns;
    std::vector<Part> parts;  // each in front of those before it
  };
  // A curve: for each column the first filled pixel's row, counted from `y`;
  // `height` if empty. Filled down to `y + height`.
  struct Area {
    int x = 0, y = 0, height = 0;
    Rgb fill = 0, line = 0;
    bool filled = true;
    std::vector<std::int16_t> tops;
  };
  struct Line {
    int x1 = 0, y1 = 0, x2 = 0, y2 = 0;
    Rgb colour = 0;
    int width = 1;
    bool dashed = false;
    bool arrow = false;      // a head at the second end
    std::string title = {};  // as a box's
  };
  enum class Align : std::uint8_t { left, centre, right };
  // Within a box, in its vertical middle; cut off at its sides, never wrapped.
  struct Text {
    int x = 0, y = 0, width = 0, height = 0;
    Rgb colour = 0;
    Align align = Align::left;
    bool bold = false;
    std::string text;
  };

  int width = 0, height = 0;
  Rgb background = 0;
  std::vector<Box> grounds;  // below everything
  std::vector<Strip> strips;
  std::vector<Area> areas;
  std::vector<Box> boxes;  // edges, frames, selections
  std::vector<Line> lines;
  std::vector<Text> texts;
  std::vector<Box> covers;        // above texts, such as the gutter's background
  std::vector<Text> cover_texts;  // on them

  void clear();
};

// One line per element, strips' colours run by run; ends with a newline.
std::string to_text(const DrawList& list);

// A standalone SVG document of the same picture, with text as text; `scale` pixels of the list are
// one of the document's.
std::string to_svg(const DrawList& list, int font_pixels, int scale = 1);

// A PNG of the same picture, pixel for pixel, with built-in letters;
// a work error if the picture is too large for memory.
std::string to_png(const DrawList& list, int font_pixels);

}  // namespace pipesim
