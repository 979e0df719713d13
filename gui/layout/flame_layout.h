// A flame graph as boxes: from the root downwards a row per depth, with widths proportional to
// time.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gui/layout/layout.h"
#include "traces/flame/flame_graph.h"

namespace pipesim::gui {

// The matches of a search.
struct FlameMatches {
  std::vector<bool> frames;   // by place among the graph's; empty: nothing is searched
  std::int64_t nodes = 0;     // that are of these frames
  std::int64_t total_ns = 0;  // in them, nothing twice
};
// Frames whose names hold the text, letters of either case; an empty text searches nothing.
FlameMatches find_frames(const FlameGraph& graph, const std::string& text);
// "12 boxes, 34.1 % of all", or that there is none; empty where nothing is searched.
std::string text_of(const FlameGraph& graph, const FlameMatches& matches);

// How a flame graph is looked at.
struct FlameView {
  std::uint32_t zoomed = FlameGraph::root;  // the node that is as wide as the canvas
  int scroll = 0;                           // device pixels
};

struct FlamePicture {
  struct Box {
    std::uint32_t node = 0;
    int x = 0, y = 0, width = 0, height = 0;
  };
  DrawList list;
  std::vector<Box> boxes;  // those in sight, from top to bottom and left to right
  int content_height = 0;  // of all rows
};

// The ancestors of the zoomed node are above it; boxes thinner than a pixel
// are merged into one grey one. What a search does not match fades.
FlamePicture layout_flame(const FlameGraph& graph, const FlameView& view,
                          const FlameMatches& matches, const Canvas& canvas,
                          const Palette& palette);

// The node at a point, if any.
std::optional<std::uint32_t> flame_at(const FlamePicture& picture, int x, int y);

// "12.30 ms, 34.1 % of all, 50.0 % of steady: step 0 > rank 1 > stage 1 > steady > F", and
// with what is its own beside its children's.
std::string text_of(const FlameGraph& graph, std::uint32_t node);

}  // namespace pipesim::gui
