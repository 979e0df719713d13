// Flame graphs as boxes: pictures as text, and what must hold for every one.
#include "gui/layout/flame_layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "gui/scene/flame.h"
#include "tests/documents.h"
#include "tests/events.h"
#include "tests/scenes.h"

namespace pipesim::gui {
namespace {

constexpr Canvas small_canvas{400, 200, 1, 7, 14};
const Palette light = palette(Theme::light, Colouring::kind);

Document events_document() {
  Document document;
  document.traces = {testing::open_trace(testing::events())};
  return document;
}

std::uint32_t node_called(const FlameGraph& graph, const std::string& name) {
  for (std::uint32_t node = 1; node < graph.nodes.size(); ++node) {
    if (graph.frame(node).name == name) return node;
  }
  ADD_FAILURE() << "no " << name;
  return FlameGraph::root;
}

std::string boxes_of(const FlameGraph& graph, const FlamePicture& picture) {
  std::string text;
  for (const FlamePicture::Box& box : picture.boxes) {
    const std::string name = box.node == FlameGraph::root ? "all" : graph.frame(box.node).name;
    text += fmt::format("{} {},{} {}x{}\n", name, box.x, box.y, box.width, box.height);
  }
  return text;
}

// 22 us in all: a kernel's 14, and a step's 8 with two layers of 4 and 1.5 in it.
TEST(FlameLayout, BoxesAreAsWideAsTime) {
  const FlameGraph graph = flame_graph_of(events_document());
  const FlamePicture picture = layout_flame(graph, {}, {}, small_canvas, light);
  EXPECT_EQ(boxes_of(graph, picture),
            "all 0,0 400x18\n"
            "gpu 0 0,18 254x18\n"
            "python 1 254,18 146x18\n"
            "stream 7 0,36 254x18\n"
            "thread 7 254,36 146x18\n"
            "kernel 0,54 254x18\n"
            "step 254,54 146x18\n"
            "layer 2 254,72 73x18\n"
            "layer 1 327,72 27x18\n");
  EXPECT_EQ(picture.content_height, 5 * 18);
  std::vector<std::string> labels;
  for (const DrawList::Text& text : picture.list.texts) labels.push_back(text.text);
  EXPECT_EQ(labels, (std::vector<std::string>{"all  100.0 %", "gpu 0  63.6 %", "python 1  36.4 %",
                                              "stream 7  63.6 %", "thread 7  36.4 %",
                                              "kernel  63.6 %", "step  36.4 %", "layer 2"}));
}

TEST(FlameLayout, WhatIsAroundTheZoomedBoxStandsAboveIt) {
  const FlameGraph graph = flame_graph_of(events_document());
  const FlamePicture picture =
      layout_flame(graph, {node_called(graph, "step"), 18}, {}, small_canvas, light);
  EXPECT_EQ(boxes_of(graph, picture),
            "python 1 0,0 400x18\n"
            "thread 7 0,18 400x18\n"
            "step 0,36 400x18\n"
            "layer 2 0,54 200x18\n"
            "layer 1 200,54 75x18\n");
  EXPECT_EQ(flame_at(picture, 0, 0), node_called(graph, "python 1"));
  EXPECT_EQ(flame_at(picture, 274, 71), node_called(graph, "layer 1"));
  EXPECT_EQ(flame_at(picture, 275, 71), std::nullopt);
  EXPECT_EQ(flame_at(picture, 10, 72), std::nullopt);
}

TEST(FlameLayout, SearchSumsNothingTwiceAndFadesTheRest) {
  const FlameGraph graph = flame_graph_of(events_document());
  const FlameMatches layers = find_frames(graph, "LAYER");
  EXPECT_EQ(layers.nodes, 2);
  EXPECT_EQ(layers.total_ns, 5'500);
  EXPECT_EQ(text_of(graph, layers), "2 boxes, 25.0 % of all");
  // A thread and a step within it.
  EXPECT_EQ(find_frames(graph, "t").total_ns, 22'000);
  EXPECT_EQ(text_of(graph, find_frames(graph, "x")), "nothing is called so");
  EXPECT_EQ(text_of(graph, find_frames(graph, "")), "");
  const FlamePicture plain = layout_flame(graph, {}, {}, small_canvas, light);
  const FlamePicture found = layout_flame(graph, {}, layers, small_canvas, light);
  ASSERT_EQ(plain.list.grounds.size(), found.list.grounds.size());
  for (std::size_t i = 1; i < plain.boxes.size(); ++i) {
    const bool is_layer = i + 2 >= plain.boxes.size();
    EXPECT_EQ(plain.list.grounds[i].fill == found.list.grounds[i].fill, is_layer) << i;
  }
  EXPECT_EQ(found.list.boxes.size(), 2U);  // frames
}

TEST(FlameLayout, SaysWhatABoxIs) {
  const FlameGraph graph = flame_graph_of(events_document());
  EXPECT_EQ(text_of(graph, FlameGraph::root), "22 us: all");
  EXPECT_EQ(text_of(graph, node_called(graph, "step")),
            "8 us, 36.4 % of all, 100.0 % of thread 7, itself 2.5 us: "
            "python 1 > thread 7 > step");
  EXPECT_EQ(text_of(graph, node_called(graph, "gpu 0")), "14 us, 63.6 % of all: gpu 0");
}

TEST(FlameLayout, OfAComparisonHasBothSides) {
  const Document document = testing::perturbed_document();
  const FlameGraph graph = flame_graph_of(document);
  std::map<std::string, std::int64_t> sides;
  for (const FlameGraph::Node& node : graph.children(FlameGraph::root)) {
    sides[graph.frames[node.frame].name] = node.total_ns;
  }
  for (const int side : {0, 1}) {
    const RecordedRun& run = testing::run_of(document, side);
    std::int64_t sum = 0;
    for (const RecordedIteration& step : run.iterations) sum += run.ranks * step.makespan_ns;
    EXPECT_EQ(sides[side == 0 ? "predicted" : "measured"], sum);
  }
}

// Of random trees: boxes lie within their parents' and beside each other; a grey one stands
// for what is thinner than a pixel, so that few are drawn of many.
TEST(FlameLayout, BoxesLieWithinTheirParents) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) {
    EventTrace trace;
    trace.texts = {""};
    trace.tracks = {{"p", "t", 0, 0, 1}};
    for (std::int64_t at = 0; at < 20'000;) {
      const std::int64_t length = pipesim::testing::pick(random, 1, 40);
      trace.slices.push_back(
          {at, at + length, static_cast<std::uint32_t>(trace.texts.size()), 0, 0, 0, 0});
      trace.texts.push_back(fmt::format("f{}", trace.texts.size()));
      at += length;
    }
    Document document;
    document.traces = {testing::open_trace(trace)};
    const FlameGraph graph = flame_graph_of(document);
    Canvas canvas = small_canvas;
    canvas.width = static_cast<int>(pipesim::testing::pick(random, 1, 600));
    const FlamePicture picture = layout_flame(graph, {}, {}, canvas, light);
    EXPECT_LE(picture.boxes.size(), static_cast<std::size_t>(3 + canvas.width));
    std::map<std::uint32_t, FlamePicture::Box> placed;
    int right = 0;
    int y = 0;
    for (const FlamePicture::Box& box : picture.boxes) {
      if (box.y != y) right = 0;
      y = box.y;
      EXPECT_GE(box.x, right);
      right = box.x + box.width;
      EXPECT_LE(right, canvas.width);
      placed[box.node] = box;
      if (box.node == FlameGraph::root) continue;
      const FlamePicture::Box& parent = placed.at(graph.nodes[box.node].parent);
      EXPECT_GE(box.x, parent.x);
      EXPECT_LE(right, parent.x + parent.width);
      EXPECT_EQ(box.y, parent.y + parent.height);
    }
  }
}

TEST(FlameLayout, OfNothingIsOneBox) {
  const FlameGraph graph = flame_graph_of({});
  const FlamePicture picture = layout_flame(graph, {}, {}, small_canvas, light);
  EXPECT_EQ(boxes_of(graph, picture), "all 0,0 400x18\n");
}

}  // namespace
}  // namespace pipesim::gui
