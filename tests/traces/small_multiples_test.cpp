// Timelines below each other on one axis, in characters and as an SVG.
#include "traces/print/small_multiples.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/xml.h"

namespace pipesim {
namespace {

Span span_of(int rank, const Action& action, std::int64_t start_ms, std::int64_t end_ms) {
  Span span;
  span.rank = rank;
  span.action = action;
  span.start_ns = start_ms * 1'000'000;
  span.end_ns = end_ms * 1'000'000;
  return span;
}

TimelinePanel panel_of(std::string title, std::vector<Span> spans, int ranks) {
  TimelinePanel panel;
  panel.title = std::move(title);
  panel.actions_of_rank.resize(static_cast<std::size_t>(ranks));
  for (int stage = 0; stage < 2 * ranks; ++stage) panel.chunk_of_stage.push_back(stage / ranks);
  for (const Span& span : spans) {
    ++panel.actions_of_rank[static_cast<std::size_t>(span.rank)];
    panel.makespan_ns = std::max(panel.makespan_ns, span.end_ns);
  }
  panel.replay = [spans = std::move(spans)](const SpanSink& sink) {
    for (const Span& span : spans) sink(span);
  };
  return panel;
}

// Of one rank with two chunks, whose forwards take 2 and 1 ms, and the same twice as long.
TimelineGroup group_of() {
  TimelineGroup group{"8 microbatches", {}, ""};
  group.panels.push_back(panel_of(
      "swift",
      {span_of(0, make_action(0, Kind::F, 0), 0, 2), span_of(0, make_action(1, Kind::B, 0), 2, 3)},
      1));
  group.panels.push_back(panel_of(
      "<slow>",
      {span_of(0, make_action(0, Kind::F, 0), 0, 4), span_of(0, make_action(1, Kind::B, 0), 4, 6)},
      1));
  return group;
}

TEST(SmallMultiples, ShareAnAxisAndALegend) {
  TimelineGroup group = group_of();
  const std::string text = small_multiples(group, {40, false});
  EXPECT_EQ(text,
            "8 microbatches\n"
            "\n"
            "   0 us\n"
            "swift\n"
            "0  F0.0--------B0.1--\n"
            "<slow>\n"
            "0  F0.0--------------------B0.1--------\n"
            "   F forward; B backward\n"
            "   F3.1: microbatch 3, chunk 1\n");
  group.note = "others are longer";
  EXPECT_EQ(small_multiples(group, {40, false}), text + "others are longer\n");
}

// A panel whose times fit no column has all of them drawn by the same.
TEST(SmallMultiples, HaveColumnsOfTheSameTime) {
  TimelineGroup group = group_of();
  group.panels.push_back(panel_of("odd", {span_of(0, make_action(0, Kind::F, 0), 0, 1)}, 1));
  Span rest = span_of(0, make_action(1, Kind::B, 0), 1, 6);
  rest.start_ns += 7;
  group.panels.back() = panel_of("odd", {span_of(0, make_action(0, Kind::F, 0), 0, 1), rest}, 1);
  std::istringstream lines(small_multiples(group, {43, false}));
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0  ")) rows.push_back(line);
  }
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].size(), 3U + 20);
  EXPECT_EQ(rows[1].size(), 3U + 40);
  EXPECT_EQ(rows[2].size(), 3U + 40);
}

TEST(TimelinesSvg, HasARectForEachAction) {
  const std::string text = timelines_svg({group_of()});
  const testing::Xml svg = testing::read_xml(text);
  ASSERT_EQ(svg.fault, "");
  const auto rects = svg.named("rect");
  ASSERT_EQ(rects.size(), 4U);
  // 1108 pixels are 6 ms.
  EXPECT_EQ(rects[0].attributes.at("x"), "68");
  EXPECT_EQ(rects[0].attributes.at("width"), "369.33");
  EXPECT_EQ(rects[1].attributes.at("x"), "437.33");
  EXPECT_EQ(rects[3].attributes.at("width"), "369.33");
  EXPECT_EQ(rects[0].attributes.at("fill"), "#0072b2");
  EXPECT_EQ(rects[1].attributes.at("fill"), "#e69f00");
  EXPECT_EQ(rects[0].attributes.count("fill-opacity"), 0U);
  EXPECT_EQ(rects[1].attributes.count("fill-opacity"), 1U) << "its second chunk's";
  EXPECT_EQ(svg.texts("title"), (std::multiset<std::string>{"0F0", "0F0", "1B0", "1B0"}));
  EXPECT_EQ(svg.texts("text").count("&lt;slow&gt;"), 1U);
  EXPECT_EQ(timelines_svg({group_of()}), text);
}

TEST(TimelinesSvg, DrawsBothActionsOfACell) {
  Action forward = make_action(0, Kind::F, 1);
  forward.joined = true;
  TimelineGroup group{"one", {}, "a note"};
  group.panels.push_back(
      panel_of("cell",
               {span_of(0, forward, 0, 3), span_of(0, make_action(1, Kind::B, 0), 0, 3),
                span_of(0, make_action(0, Kind::B, 1), 3, 4)},
               1));
  const testing::Xml svg = testing::read_xml(timelines_svg({group}));
  ASSERT_EQ(svg.fault, "");
  const auto rects = svg.named("rect");
  ASSERT_EQ(rects.size(), 3U);
  const auto top = [&](std::size_t i) { return std::stoi(rects[i].attributes.at("y")); };
  EXPECT_EQ(rects[0].attributes.at("height"), "8");
  EXPECT_EQ(top(1), top(0) + 8);
  EXPECT_EQ(top(2), top(0));
  EXPECT_EQ(rects[2].attributes.at("height"), "16");
  EXPECT_EQ(svg.texts("text").count("a note"), 1U);
}

// Of many ranks some are shown, and transfers are in no row.
TEST(TimelinesSvg, ShowsWhatKeepsShownRanksBusy) {
  std::vector<Span> spans;
  for (int rank = 0; rank < 100; ++rank) {
    spans.push_back(span_of(rank, make_action(rank, Kind::F, 0), rank, rank + 1));
    spans.push_back(span_of(rank, make_action(rank, Kind::SEND_F, 0), rank + 1, rank + 2));
  }
  const testing::Xml svg =
      testing::read_xml(timelines_svg({{"many", {panel_of("all", spans, 100)}, ""}}));
  ASSERT_EQ(svg.fault, "");
  EXPECT_EQ(svg.named("rect").size(), 16U);
}

}  // namespace
}  // namespace pipesim
