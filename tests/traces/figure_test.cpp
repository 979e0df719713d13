// Timelines as figures: the shapes and labels that they are drawn with, as SVG and as PNG.
#include "traces/print/figure.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/errors.h"
#include "tests/panels.h"
#include "tests/xml.h"

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#include <stb/stb_image.h>

namespace pipesim {
namespace {

using testing::panel_of;
using testing::span_of;
using testing::two_panels;

testing::Xml svg_of(const std::vector<TimelineGroup>& groups) {
  const std::string text = draw_figure(groups, FigureForm::svg);
  EXPECT_EQ(draw_figure(groups, FigureForm::svg), text);
  testing::Xml svg = testing::read_xml(text);
  EXPECT_EQ(svg.fault, "");
  return svg;
}

// Those of actions, by their titles, in the order drawn.
std::vector<std::pair<std::string, testing::XmlElement>> actions_of(const testing::Xml& svg) {
  std::vector<std::pair<std::string, testing::XmlElement>> found;
  for (const auto& title : svg.named("title")) {
    found.emplace_back(title.text, svg.elements[static_cast<std::size_t>(title.parent)]);
  }
  return found;
}

double number(const testing::XmlElement& element, const char* name) {
  return std::stod(element.attributes.at(name));
}

TEST(Figure, HasABoxForEachActionOnOneAxis) {
  const testing::Xml svg = svg_of({two_panels()});
  const auto boxes = actions_of(svg);
  ASSERT_EQ(boxes.size(), 4U);
  EXPECT_EQ(boxes[0].first, "0F0");
  EXPECT_EQ(boxes[1].first, "1B0");
  const testing::XmlElement& slow = boxes[2].second;
  // The whole axis is 6 ms, of which it takes 4; half a pixel of 20 parts is left free.
  EXPECT_EQ(number(slow, "x"), number(boxes[0].second, "x"));
  EXPECT_NEAR(number(boxes[0].second, "width") + 10, (number(slow, "width") + 10) / 2, 1);
  EXPECT_EQ(number(boxes[3].second, "x"), number(slow, "x") + number(slow, "width") + 10);
  EXPECT_EQ(slow.attributes.at("fill"), "#0072b2");
  EXPECT_EQ(boxes[3].second.attributes.at("fill"), "#f2cf7f") << "a later chunk is lighter";
  const auto texts = svg.texts("text");
  EXPECT_EQ(texts.count("&lt;slow&gt;"), 1U);
  EXPECT_EQ(texts.count("8 microbatches"), 1U);
  EXPECT_EQ(texts.count("0F0") + texts.count("1B0"), 4U);
  EXPECT_EQ(texts.count("forward") + texts.count("backward"), 2U);
  EXPECT_EQ(texts.count("weight gradient"), 0U) << "a legend names what is drawn";
  EXPECT_EQ(svg.elements.front().attributes.at("width"), "1200");
}

TEST(Figure, GivesHalvesOfARowToACell) {
  Action forward = make_action(0, Kind::F, 1);
  forward.joined = true;
  TimelineGroup group{"", {}, "a note"};
  group.panels.push_back(
      panel_of("",
               {span_of(0, forward, 0, 3), span_of(0, make_action(1, Kind::B, 0), 0, 3),
                span_of(0, make_action(0, Kind::B, 1), 3, 4)},
               1));
  const testing::Xml svg = svg_of({group});
  const auto boxes = actions_of(svg);
  ASSERT_EQ(boxes.size(), 3U);
  const double height = number(boxes[0].second, "height");
  EXPECT_EQ(number(boxes[1].second, "height"), height);
  EXPECT_EQ(number(boxes[1].second, "y"), number(boxes[0].second, "y") + height);
  EXPECT_EQ(number(boxes[2].second, "y"), number(boxes[0].second, "y"));
  EXPECT_EQ(number(boxes[2].second, "height"), 2 * height);
  EXPECT_EQ(svg.texts("text").count("a note"), 1U);
}

// Of many ranks some are shown, and transfers are in no row.
TEST(Figure, ShowsWhatKeepsShownRanksBusy) {
  std::vector<Span> spans;
  for (int rank = 0; rank < 100; ++rank) {
    spans.push_back(span_of(rank, make_action(rank, Kind::F, 0), rank, rank + 1));
    spans.push_back(span_of(rank, make_action(rank, Kind::SEND_F, 0), rank + 1, rank + 2));
  }
  EXPECT_EQ(actions_of(svg_of({{"many", {panel_of("all", spans, 100)}, ""}})).size(), 16U);
}

// A row of more actions than pixels is split by kind: of F, B and nothing, a third each.
TEST(Figure, ShowsManyActionsInProportion) {
  std::vector<Span> spans;
  constexpr int microbatches = 4000;
  for (int m = 0; m < microbatches; ++m) {
    spans.push_back(span_of(0, make_action(0, Kind::F, m), 3 * m, 3 * m + 1));
    spans.push_back(span_of(0, make_action(0, Kind::B, m), 3 * m + 1, 3 * m + 2));
  }
  const DrawList list = figure_list({{"", {panel_of("", spans, 1)}, ""}}, 1);
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  int squares = 0;
  for (const DrawList::Box& box : list.boxes) {
    if (box.width == 12 && box.height == 12) {
      ++squares;  // of the legend
    } else {
      (box.fill == colours::forward.light ? forward : backward) += box.width * box.height;
    }
  }
  EXPECT_EQ(squares, 2);
  const std::int64_t row = list.grounds.front().width * list.grounds.front().height;
  EXPECT_NEAR(static_cast<double>(forward) / static_cast<double>(row), 1.0 / 3, 0.01);
  EXPECT_NEAR(static_cast<double>(backward) / static_cast<double>(row), 1.0 / 3, 0.01);
  EXPECT_LT(list.boxes.size(), 1000U) << "as many as columns, whatever the actions";
}

TEST(Figure, IsAPngOfTheSameBoxes) {
  const std::vector<TimelineGroup> groups{two_panels()};
  const std::string png = draw_figure(groups, FigureForm::png);
  EXPECT_EQ(draw_figure(groups, FigureForm::png), png);
  int width = 0;
  int height = 0;
  int channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(png.data()),
                            static_cast<int>(png.size()), &width, &height, &channels, 3),
      stbi_image_free);
  ASSERT_NE(pixels, nullptr);
  const DrawList list = figure_list(groups, 2);
  EXPECT_EQ(width, list.width);
  EXPECT_EQ(height, list.height);
  const auto at = [&](int x, int y) {
    const stbi_uc* pixel = pixels.get() + (static_cast<std::ptrdiff_t>(y) * width + x) * 3;
    return static_cast<Rgb>(pixel[0] << 16 | pixel[1] << 8 | pixel[2]);
  };
  EXPECT_EQ(at(0, 0), 0xffffffU);
  ASSERT_GE(list.boxes.size(), 4U);
  for (const DrawList::Box& box : list.boxes) {
    EXPECT_EQ(at(box.x, box.y), box.fill);
    EXPECT_EQ(at(box.x + box.width - 1, box.y + box.height - 1), box.fill);
    EXPECT_NE(at(box.x - 1, box.y), box.fill);
  }
  // Letters are drawn, in their colour and mixed with the ground.
  const DrawList::Text& text = list.texts.front();
  bool inked = false;
  for (int y = text.y; y < text.y + text.height; ++y) {
    for (int x = text.x; x < text.x + text.width; ++x) inked = inked || at(x, y) == text.colour;
  }
  EXPECT_TRUE(inked);
}

TEST(Figure, IsOfAFormThatItsNameSays) {
  EXPECT_EQ(figure_form("a.svg", "--figure"), FigureForm::svg);
  EXPECT_EQ(figure_form("b.png", "--figure"), FigureForm::png);
  const std::string text = testing::input_error_of([] { figure_form("c.pdf", "--figure"); });
  EXPECT_NE(text.find("--figure 'c.pdf'"), std::string::npos) << text;
}

}  // namespace
}  // namespace pipesim
