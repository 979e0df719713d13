// Pictures of scenes made by hand, as text and by what must hold for every picture.
//
// PIPESIM_UPDATE_GOLDEN=1 writes tests/data/views anew.
#include "gui/layout/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "gui/scene/shading.h"
#include "tests/documents.h"
#include "traces/bubbles.h"

namespace pipesim::gui {
namespace {

// Slices stand for actions: their names are their labels.
struct Made {
  Document document;
  Scene scene;
  View view;

  Picture picture(const Canvas& canvas, Theme theme = Theme::light) const {
    return layout(document, scene, view, canvas, palette(theme, scene.options.colouring));
  }
};

constexpr Canvas small{640, 320, 1, 7, 14};
constexpr Canvas usual{1024, 700, 1, 7, 14};
constexpr Canvas fine{2048, 1400, 2, 14, 28};

// Ranks that do forwards, then backwards, each a bit later than the one before; the
// second trace takes `slower` percent longer.
Made made(int ranks, int microbatches, int traces, int slower = 20) {
  Made scene;
  for (int trace = 0; trace < traces; ++trace) {
    auto open = std::make_shared<OpenTrace>();
    open->name = trace == 0 ? "predicted" : "measured";
    open->events.emplace();
    open->events->texts = {""};
    scene.document.traces.push_back(open);
  }
  std::vector<Arrow> arrows;
  for (int rank = 0; rank < ranks; ++rank) {
    Group group;
    group.name = "rank " + std::to_string(rank);
    group.rank = rank;
    for (int trace = 0; trace < traces; ++trace) {
      auto open = std::const_pointer_cast<OpenTrace>(
          scene.document.traces[static_cast<std::size_t>(trace)]);
      Lane lane;
      lane.trace = trace;
      lane.label = traces == 1 ? "" : trace == 0 ? "predicted" : "measured";
      lane.rows.resize(1);
      CurveLane memory;
      memory.trace = trace;
      memory.label = "memory";
      memory.bytes = true;
      memory.peak = "0B1";
      const auto scaled = [&](std::int64_t ns) { return ns * (100 + trace * slower) / 100; };
      std::int64_t now = scaled(rank * 1'000);
      if (now > 0) lane.rows[0].add({0, now, 0, first_bubble_shade});
      const auto work = [&](std::int64_t ns, Shade shade, const std::string& name) {
        const auto ref = static_cast<Ref>(open->events->slices.size());
        Slice slice;
        slice.start_ns = now;
        slice.end_ns = now + scaled(ns);
        slice.name = static_cast<std::uint32_t>(open->events->texts.size());
        open->events->slices.push_back(slice);
        open->events->texts.push_back(name);
        lane.rows[0].add({slice.start_ns, slice.end_ns, ref, shade});
        now = slice.end_ns;
        return ref;
      };
      for (int i = 0; i < microbatches; ++i) {
        const Ref ref = work(1'000, 0, std::to_string(rank) + "F" + std::to_string(i));
        memory.curve.add({now, (i + 1) * (std::int64_t{16} << 20)});
        if (rank + 1 < ranks) {
          arrows.push_back({now, now + 50, rank, rank + 1, trace, ref, ref});
        }
      }
      for (int i = 0; i < microbatches; ++i) {
        const std::int64_t wait = scaled(i % 2 == 0 ? 400 : 0);
        if (wait > 0) lane.rows[0].add({now, now + wait, 0, first_bubble_shade + 1});
        now += wait;
        work(2'000, 3, std::to_string(rank) + "B" + std::to_string(i));
        memory.curve.add({now, (microbatches - 1 - i) * (std::int64_t{16} << 20)});
      }
      lane.rows[0].finish();
      memory.curve.finish();
      lane.critical.add({0, now / 2, 0, critical_shade});
      lane.critical.finish();
      scene.scene.extent.to_ns = std::max(scene.scene.extent.to_ns, now);
      group.lanes.push_back(std::move(lane));
      group.curves.push_back(std::move(memory));
    }
    scene.scene.groups.push_back(std::move(group));
  }
  std::ranges::stable_sort(arrows, {}, &Arrow::from_ns);
  for (const Arrow& arrow : arrows) scene.scene.arrows.push_back(arrow);
  scene.scene.home = scene.scene.extent;
  scene.view.range = scene.scene.home;
  return scene;
}

void set_show(Made& made, Show show) { made.scene.options.show = made.view.options.show = show; }

// A group's curve of lateness, early at first.
void add_lateness(Made& made, bool early) {
  for (Group& group : made.scene.groups) {
    CurveLane lane;
    lane.trace = 1;
    lane.label = "lateness";
    lane.curve.add({0, early ? -500 : 0});
    lane.curve.add({3'000, 0});
    lane.curve.add({6'000, 2'000});
    lane.curve.finish();
    group.curves.push_back(std::move(lane));
  }
}

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void expect_golden(const std::string& name, const DrawList& list) {
  const std::filesystem::path path =
      std::filesystem::path(PIPESIM_SOURCE_DIR) / "tests/data/views" / (name + ".txt");
  const std::string text = to_text(list);
  if (std::getenv("PIPESIM_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  const std::string expected = text_of_file(path);
  if (text == expected) return;
  std::istringstream is(text), was(expected);
  std::string line, expected_line;
  for (int number = 1; std::getline(was, expected_line); ++number) {
    std::getline(is, line);
    ASSERT_EQ(line, expected_line) << path << ":" << number;
  }
  FAIL() << path << " is shorter than the picture, from: " << line;
}

TEST(Golden, Stacked) { expect_golden("stacked", made(2, 3, 2).picture(small).list); }

TEST(Golden, OneRunInTheDark) {
  Made one = made(3, 2, 1);
  one.scene.options.critical = true;
  expect_golden("one_run_dark", one.picture(small, Theme::dark).list);
}

TEST(Golden, Overlay) {
  Made two = made(2, 3, 2);
  set_show(two, Show::overlay);
  expect_golden("overlay", two.picture(small).list);
}

TEST(Golden, Difference) {
  Made two = made(2, 3, 2);
  set_show(two, Show::difference);
  for (Group& group : two.scene.groups) {
    group.lanes.erase(group.lanes.begin());
    group.lanes[0].kind = LaneKind::difference;
  }
  add_lateness(two, true);
  expect_golden("difference", two.picture(small).list);
}

TEST(Golden, ZoomedIn) {
  Made two = made(2, 3, 2);
  two.view.range = {2'200, 2'260};
  two.view.marks = {2'210, 2'230};
  two.view.area = TimeRange{2'235, 2'300};
  expect_golden("zoomed_in", two.picture(small).list);
}

TEST(Golden, ZoomedOut) {
  Made many = made(12, 200, 2);
  many.view.arrows = false;
  expect_golden("zoomed_out", many.picture({320, 400, 1, 7, 14}).list);
}

TEST(Golden, ArrowsInBundles) {
  Made many = made(4, 100, 2);
  many.view.curves = false;
  const Picture picture = many.picture(small);
  EXPECT_EQ(picture.bundled_arrows, 600);
  expect_golden("bundles", picture.list);
}

TEST(Golden, CurvesWithACapacity) {
  Made two = made(2, 3, 2);
  for (Group& group : two.scene.groups) {
    for (CurveLane& lane : group.curves) lane.capacity = std::int64_t{64} << 20;
  }
  expect_golden("capacity", two.picture(small).list);
}

TEST(Golden, ScrolledWithPins) {
  Made many = made(12, 4, 2);
  many.view.pinned = {"rank 3"};
  many.view.scroll = 77;
  expect_golden("scrolled", many.picture(small).list);
}

TEST(Golden, Slots) {
  Made one = made(2, 3, 1);
  one.scene.options.alignment = one.view.options.alignment = Alignment::slot;
  one.scene.options.colouring = Colouring::microbatch;
  one.view.curves = one.view.arrows = false;
  expect_golden("slots", one.picture(small).list);
}

TEST(Golden, Emphasised) {
  Made two = made(2, 3, 2);
  two.scene.emphasises = true;
  for (Group& group : two.scene.groups) {
    BarRow& row = group.lanes[1].emphasis;
    row.add(group.lanes[1].rows[0][1]);
    row.finish();
  }
  expect_golden("emphasised", two.picture(small).list);
}

TEST(Golden, NothingOpen) { expect_golden("empty", Made{}.picture(small).list); }

TEST(Golden, Overview) {
  const Made two = made(4, 6, 2);
  View view = two.view;
  view.range = {2'000, 9'000};
  view.marks = {4'000};
  expect_golden("overview", layout_overview(two.document, two.scene, view, {640, 60, 1, 7, 14},
                                            palette(Theme::light, Colouring::kind)));
}

// ---- What holds for every picture

struct Shown {
  std::string name;
  Made made;
};

// Of all ways of looking at least one each.
std::vector<Shown> many_views() {
  std::vector<Shown> views;
  views.push_back({"nothing", {}});
  for (const int ranks : {1, 4, 9, 32, 100}) {
    for (const Show show : {Show::stacked, Show::overlay, Show::difference}) {
      Made two = made(ranks, 8, 2);
      set_show(two, show);
      if (show == Show::difference) add_lateness(two, ranks % 2 == 0);
      two.scene.options.critical = true;
      for (Group& group : two.scene.groups) {
        for (CurveLane& lane : group.curves) lane.capacity = std::int64_t{512} << 20;
      }
      const std::string name = std::to_string(ranks) + " ranks";
      views.push_back({name, two});
      two.view.range = {3'000, 4'500};
      two.view.marks = {3'100, 3'110, 3'700, 4'400};
      two.view.area = TimeRange{3'500, 3'800};
      views.push_back({name + ", zoomed in", two});
      two.view.range = {3'000, 3'020};
      two.view.scroll = 333;
      two.view.pinned = {"rank 0", "rank 7"};
      views.push_back({name + ", nanoseconds, scrolled", two});
      two.view.filter = "rank 1";
      views.push_back({name + ", filtered", two});
      two.view.filter = "none of these";
      views.push_back({name + ", none", two});
    }
  }
  Made one = made(4, 40, 1);
  for (Group& group : one.scene.groups) {
    group.process = "a process with a name that is rather long, 1234";
    group.name = "a thread of which the name is long, too \xc3\xa4\xc3\xb6\xc3\xbc (stream 7)";
    group.lanes[0].kind = LaneKind::slices;
  }
  for (const Colouring colouring : {Colouring::microbatch, Colouring::error}) {
    one.scene.options.colouring = colouring;
    views.push_back({"long names", one});
  }
  for (BarRow& row : one.scene.groups[0].lanes[0].rows) {
    row.reshade([](const Bar& bar) { return static_cast<Shade>(bar.ref % shade_count); });
  }
  one.scene.groups[0].lanes[0].kind = LaneKind::work;
  views.push_back({"every shade", one});
  one.scene.options.alignment = Alignment::slot;
  views.push_back({"slots", one});
  return views;
}

bool overlap(const DrawList::Text& a, const DrawList::Text& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

// What of its box a text needs.
DrawList::Text letters_of(const DrawList::Text& text, const Canvas& canvas) {
  DrawList::Text made = text;
  const auto count = std::ranges::count_if(
      text.text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  made.width = static_cast<int>(count) * canvas.char_width;
  made.x += text.align == DrawList::Align::left     ? 0
            : text.align == DrawList::Align::centre ? (text.width - made.width) / 2
                                                    : text.width - made.width;
  return made;
}

void expect_sound(const Shown& shown, const Canvas& canvas) {
  const Picture picture = shown.made.picture(canvas);
  const DrawList& list = picture.list;
  const auto within = [&](int x, int y, int width, int height) {
    return x >= 0 && y >= 0 && width >= 0 && height > 0 && x + width <= canvas.width &&
           y + height <= canvas.height;
  };
  for (const auto* boxes : {&list.grounds, &list.boxes, &list.covers}) {
    for (const auto& box : *boxes) ASSERT_TRUE(within(box.x, box.y, box.width, box.height));
  }
  for (const auto& strip : list.strips) {
    ASSERT_TRUE(within(strip.x, strip.y, static_cast<int>(strip.columns.size()), strip.height));
    for (const auto& part : strip.parts) {
      ASSERT_TRUE(part.column >= 0 && part.width > 0 && part.top >= 0 && part.top < strip.height);
      ASSERT_LE(part.column + part.width, static_cast<int>(strip.columns.size()));
    }
  }
  for (const auto& area : list.areas) {
    ASSERT_TRUE(within(area.x, area.y, static_cast<int>(area.tops.size()), area.height));
    for (const std::int16_t top : area.tops) ASSERT_TRUE(top >= 0 && top <= area.height);
  }
  for (const auto& line : list.lines) {
    ASSERT_TRUE(within(line.x1, line.y1, 0, 1) && within(line.x2, line.y2, 0, 1));
  }
  ASSERT_LE(list.lines.size(), 2U * max_arrows);
  ASSERT_LE(list.texts.size(), max_labels + 200U);

  std::vector<DrawList::Text> texts;
  for (const auto* layer : {&list.texts, &list.cover_texts}) {
    for (const auto& text : *layer) {
      ASSERT_TRUE(within(text.x, text.y, text.width, text.height)) << text.text;
      ASSERT_GE(text.height + canvas.scaled(3), canvas.text_height) << text.text;
      const DrawList::Text letters = letters_of(text, canvas);
      ASSERT_LE(letters.width, text.width) << text.text;
      ASSERT_FALSE(text.text.empty());
      for (const auto& other : texts) {
        ASSERT_FALSE(overlap(letters, other)) << text.text << " and " << other.text;
      }
      texts.push_back(letters);
    }
  }
  // What is said of a peak is above the curves.
  for (const auto& text : list.texts) {
    if (!text.text.starts_with("peak ")) continue;
    for (const auto& area : list.areas) {
      if (area.y >= text.y + text.height || area.y + area.height <= text.y) continue;
      for (int x = std::max(text.x, area.x); x < text.x + text.width; ++x) {
        const auto column = static_cast<std::size_t>(x - area.x);
        if (column >= area.tops.size() || area.tops[column] >= area.height) continue;
        ASSERT_GE(area.y + area.tops[column], text.y + text.height) << text.text;
      }
    }
  }
  // Covers hide nothing that is said below them.
  for (const auto& text : list.texts) {
    for (const auto& box : list.covers) {
      const bool apart = box.x >= text.x + text.width || text.x >= box.x + box.width ||
                         box.y >= text.y + text.height || text.y >= box.y + box.height;
      ASSERT_TRUE(apart) << text.text;
    }
  }
  int y = 0;
  for (const PlacedRow& row : picture.rows) {
    ASSERT_GE(row.y, y);
    ASSERT_GT(row.height, 0);
    ASSERT_LE(row.y + row.height, canvas.height - picture.legend_height);
    y = row.y;
  }
}

TEST(Layout, StaysWithinTheCanvasAndTextsApart) {
  for (const Shown& shown : many_views()) {
    for (const Canvas& canvas : {usual, fine, small, Canvas{300, 200, 1, 7, 14}}) {
      SCOPED_TRACE(shown.name + " at " + std::to_string(canvas.width));
      expect_sound(shown, canvas);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Layout, NamesEveryGroupInSightAndAllColours) {
  const Made two = made(16, 8, 2);
  const Picture picture = two.picture(usual);
  const auto says = [&](const std::string& text) {
    return std::ranges::any_of(picture.list.cover_texts,
                               [&](const auto& other) { return other.text == text; });
  };
  for (const PlacedGroup& group : picture.groups) {
    if (group.y >= usual.height - picture.legend_height - 20) continue;
    EXPECT_TRUE(says(two.scene.groups[static_cast<std::size_t>(group.group)].name));
  }
  EXPECT_TRUE(says("forward") && says("backward") && says("warm-up bubble") &&
              says("steady bubble"));
  EXPECT_FALSE(says("weight gradient"));
}

TEST(Layout, LegendTellsOfLaterChunksWhereThereAreAny) {
  for (const bool later : {true, false}) {
    Made one = made(2, 4, 1);
    if (later) {
      one.scene.groups[1].lanes[0].rows[0].reshade([](const Bar& bar) {
        return is_bubble(bar.shade) ? bar.shade : shade_of(Kind::W, 1, 2);
      });
    }
    const Picture picture = one.picture(usual);
    const auto says = [&](const std::string& text) {
      return std::ranges::any_of(picture.list.cover_texts,
                                 [&](const auto& other) { return other.text == text; });
    };
    EXPECT_EQ(says("later chunks"), later);
    EXPECT_EQ(says("weight gradient"), later);
  }
}

TEST(Layout, LegendNamesNothingThatIsNotThere) {
  Made one = made(2, 4, 1);
  one.scene.options.critical = true;
  one.scene.groups[1].lanes[0].rows[0].reshade(
      [](const Bar& bar) { return is_bubble(bar.shade) ? bar.shade : shade_of(Kind::W); });
  const auto says = [&](const std::string& text) {
    const Picture picture = one.picture(usual);
    return std::ranges::any_of(picture.list.cover_texts,
                               [&](const auto& other) { return other.text == text; });
  };
  EXPECT_TRUE(says("weight gradient") && says("backward") && says("critical path"));
  one.view.filter = "rank 0";
  EXPECT_FALSE(says("weight gradient"));
  EXPECT_TRUE(says("backward") && says("critical path"));
  one.scene.groups[0].lanes[0].critical = {};
  EXPECT_FALSE(says("critical path"));
}

// Whose memory a curve is, also where the lanes are of one trace alone.
TEST(Layout, LegendNamesTheTracesOfCurves) {
  for (const bool curves : {true, false}) {
    Made two = made(2, 3, 2);
    set_show(two, Show::difference);
    for (Group& group : two.scene.groups) group.lanes.erase(group.lanes.begin());
    two.view.curves = curves;
    const Picture picture = two.picture(usual);
    const auto names = [&](const std::string& text) {
      return std::ranges::count_if(picture.list.cover_texts, [&](const auto& other) {
        return other.text == text && other.y >= usual.height - picture.legend_height;
      });
    };
    EXPECT_EQ(names("predicted"), curves ? 1 : 0);
    EXPECT_EQ(names("measured"), curves ? 1 : 0);
  }
}

TEST(Layout, DoublesAtTwiceTheScale) {
  for (const Shown& shown : many_views()) {
    const Picture one = shown.made.picture(usual);
    const Picture two = shown.made.picture(fine);
    SCOPED_TRACE(shown.name);
    if (shown.made.view.scroll == 0) {
      ASSERT_EQ(one.rows.size(), two.rows.size());
    }
    ASSERT_EQ(2 * one.ruler_height, two.ruler_height);
    ASSERT_EQ(2 * one.legend_height, two.legend_height);
    ASSERT_NEAR(2 * one.viewport.x, two.viewport.x, 4);
    for (std::size_t i = 0; i < one.groups.size() && shown.made.view.scroll == 0; ++i) {
      ASSERT_NEAR(2 * one.groups[i].height, two.groups[i].height, 10);
    }
  }
}

TEST(Layout, FitsAllGroupsWhereItCan) {
  for (const int ranks : {1, 2, 4, 8, 16, 32}) {
    const Picture picture = made(ranks, 4, 1).picture({1600, 1000, 1, 7, 14});
    EXPECT_LE(picture.content_height, 1000 - picture.ruler_height - picture.legend_height) << ranks;
  }
  const Picture many = made(200, 1, 2).picture(usual);
  EXPECT_GT(many.content_height, 3 * usual.height);
}

TEST(Layout, ScrollsToTheEndAndNoFurther) {
  Made many = made(60, 2, 2);
  many.view.scroll = 1'000'000;
  const Picture picture = many.picture(usual);
  const PlacedGroup& last = picture.groups.back();
  EXPECT_EQ(last.y + last.height, usual.height - picture.legend_height);
  EXPECT_EQ(picture.rows.back().group, 59);
}

TEST(Layout, LabelsTheWidestAndCountsTheRest) {
  Made many = made(60, 40, 1);
  many.view.curves = many.view.arrows = false;
  const Canvas huge{8000, 3000, 1, 7, 14};
  const Picture picture = many.picture(huge);
  EXPECT_EQ(picture.list.texts.size(), static_cast<std::size_t>(max_labels));
  EXPECT_GT(picture.hidden_labels, 0);
  many.view.range.to_ns /= 60;
  EXPECT_EQ(many.picture(huge).hidden_labels, 0);
}

// "4B0", "B0" or nothing, as equal bars of a row have it, and never up to the bar's edges.
TEST(Layout, LabelsHaveOneNotation) {
  const auto is_label = [](std::string_view text) {
    const auto kind = text.find_first_not_of("0123456789");
    return kind != std::string_view::npos && kind + 1 < text.size() &&
           std::string_view("FBIW").find(text[kind]) != std::string_view::npos &&
           text.find_first_not_of("0123456789", kind + 1) == std::string_view::npos;
  };
  std::set<std::string> seen;
  for (const char* family : {"1f1b", "interleaved", "zb-h1"}) {
    const Schedule schedule = generate(ScheduleRequest{family, 4, 8, {}, {}, {}});
    Made one;
    one.document = testing::document_of(pipesim::testing::recorded(
        schedule, pipesim::testing::costs_of(schedule.stages(), 1'000'000, 2'000'000)));
    one.scene = build_scene(one.document, {});
    one.view.range = one.scene.extent;
    one.view.curves = false;
    for (int width = 400; width < 3'000; width += 61) {
      const Picture picture = one.picture({width, 500, 1, 7, 14});
      std::map<std::pair<int, char>, std::set<std::size_t>> lengths;  // by row and kind
      for (const auto& text : picture.list.texts) {
        const bool bubble = std::ranges::any_of(
            bubble_names, [&](std::string_view name) { return text.text.starts_with(name); });
        if (bubble) continue;
        ASSERT_TRUE(is_label(text.text)) << text.text;
        const int wide = text.text.find('W') == std::string::npos ? 0 : 4;
        ASSERT_LE(static_cast<int>(text.text.size()) * 7 + wide + 2, text.width + 1) << text.text;
        const auto kind = text.text.find_first_not_of("0123456789");
        // Microbatches and kinds are one letter each.
        lengths[{text.y, text.text[kind]}].insert(text.text.size() - kind);
        seen.insert(text.text.substr(kind));
      }
      for (const auto& [row, own] : lengths) ASSERT_EQ(own.size(), 1U);
    }
  }
  EXPECT_EQ(seen.size(), 4U * 8U);
}

// 0 and the greatest value, peak or capacity, beside a line each, as far as there is room.
TEST(Layout, CurvesHaveAnAxis) {
  for (const std::int64_t capacity : {0, 64, 4096}) {
    for (const int height : {700, 120}) {
      Made one = made(2, 3, 1);
      for (Group& group : one.scene.groups) {
        if (capacity > 0) group.curves[0].capacity = capacity << 20;
      }
      const Canvas canvas{1024, height, 1, 7, 14};
      const Picture picture = one.picture(canvas);
      const auto places = [&](const std::string& text) {
        std::vector<DrawList::Text> found;
        std::ranges::copy_if(picture.list.cover_texts, std::back_inserter(found),
                             [&](const auto& other) { return other.text == text; });
        return found;
      };
      // What is far above the curve does not flatten it.
      const auto most = places(capacity == 64 ? "64.0 MiB" : "48.0 MiB");
      const bool high = height == 700;
      EXPECT_EQ(most.size(), high ? 2U : most.size());
      EXPECT_EQ(places("0").size(), high ? 2U : 0U);
      if (!high) continue;
      for (std::size_t i = 0; i < 2; ++i) {
        const auto& area = picture.list.areas[i];
        const auto on = [&](int y) {
          return std::ranges::any_of(picture.list.grounds, [&](const auto& line) {
            return line.y == y && line.height == 1 && line.width == picture.viewport.width;
          });
        };
        EXPECT_TRUE(on(area.y) && on(area.y + area.height - 1));
        EXPECT_EQ(most[i].y + most[i].height / 2, area.y);
        EXPECT_NEAR(places("0")[i].y + 7, area.y + area.height - 1, 1);
        EXPECT_LE(most[i].x + most[i].width, picture.viewport.x);
        const auto top = std::ranges::min(area.tops);
        EXPECT_EQ(top == 0, capacity != 64);  // the peak is the greatest
      }
    }
  }
}

// Arrows are faint but for those of the selection.
TEST(Layout, ArrowsRecedeBehindThoseOfTheSelection) {
  for (const Theme theme : {Theme::light, Theme::dark}) {
    for (const int microbatches : {8, 200}) {
      const Schedule schedule = generate(ScheduleRequest{"1f1b", 4, microbatches, {}, {}, {}});
      Made one;
      one.document = testing::document_of(pipesim::testing::recorded(
          schedule, pipesim::testing::costs_of(schedule.stages(), 1'000'000, 2'000'000)));
      one.scene = build_scene(one.document, {});
      one.view.range = one.scene.extent;
      const Palette colours = palette(theme, Colouring::kind);
      const auto lines = [&] { return one.picture(usual, theme).list.lines; };
      const Rgb faint = lines().front().colour;
      for (const auto& line : lines()) {
        EXPECT_EQ(line.colour, faint);
        EXPECT_EQ(line.width, 1);
      }
      for (const int shift : {16, 8, 0}) {
        const auto apart = [&](Rgb colour) {
          return std::abs(static_cast<int>(colour >> shift & 0xff) -
                          static_cast<int>(colours.background >> shift & 0xff));
        };
        EXPECT_LT(2 * apart(faint), apart(colours.text));
        EXPECT_GT(apart(faint), 30);
      }
      const Arrow first = one.scene.arrows[0];
      one.view.picked = Pick{first.trace, first.ref, false};
      EXPECT_TRUE(std::ranges::any_of(lines(), [&](const auto& line) {
        return line.colour == colours.selection && line.width == 2;
      }));
    }
  }
}

TEST(Layout, DrawsEachArrowOrItsBundle) {
  Made few = made(4, 8, 2);
  EXPECT_EQ(few.picture(usual).list.lines.size(), few.scene.arrows.size());
  EXPECT_EQ(few.picture(usual).bundled_arrows, 0);
  Made many = made(10, 2'000, 2);
  const Picture picture = many.picture(usual);
  EXPECT_LE(picture.list.lines.size(), static_cast<std::size_t>(max_arrows));
  EXPECT_GT(picture.list.lines.size(), 30U);
  EXPECT_NEAR(static_cast<double>(picture.bundled_arrows),
              static_cast<double>(many.scene.arrows.size()), 1'000);
  many.view.arrows = false;
  EXPECT_TRUE(many.picture(usual).list.lines.empty());
}

TEST(Layout, HitFindsTheBarAtEachBarsMiddle) {
  for (const Show show : {Show::stacked, Show::overlay}) {
    Made two = made(5, 6, 2);
    set_show(two, show);
    two.scene.groups[2].lanes[1].offset_ns = 1'234;
    two.view.pinned = {"rank 2"};
    const Picture picture = two.picture(usual);
    int found = 0;
    for (const PlacedRow& row : picture.rows) {
      if (row.lane < 0) continue;
      const Lane& lane = two.scene.groups[static_cast<std::size_t>(row.group)]
                             .lanes[static_cast<std::size_t>(row.lane)];
      for (std::size_t i = 0; i < lane.rows[0].size(); ++i) {
        const Bar bar = lane.rows[0][i];
        const int x = picture.viewport.x_of((bar.start_ns + bar.end_ns) / 2 + lane.offset_ns);
        if (x >= picture.viewport.x + picture.viewport.width) continue;
        // What is behind is seen above and below what is in front.
        const bool behind = show == Show::overlay && row.lane == 0;
        const auto at = hit(picture, two.scene, x, behind ? row.y + 1 : row.y + row.height / 2);
        ASSERT_TRUE(at && at->bar && at->pick);
        EXPECT_EQ(*at->bar, bar);
        EXPECT_EQ(at->group, row.group);
        EXPECT_EQ(at->lane, row.lane);
        EXPECT_EQ(*at->pick, (Pick{lane.trace, bar.ref, is_bubble(bar.shade)}));
        EXPECT_TRUE(bar.start_ns + lane.offset_ns <= at->time_ns + 20 &&
                    at->time_ns < bar.end_ns + lane.offset_ns);
        ++found;
      }
    }
    EXPECT_GT(found, 100);
  }
}

TEST(Layout, HitTellsTheGroupWhereThereIsNoBar) {
  const Made two = made(3, 2, 2);
  const Picture picture = two.picture(usual);
  for (const PlacedGroup& group : picture.groups) {
    const auto in_gutter = hit(picture, two.scene, 3, group.y + group.height / 2);
    ASSERT_TRUE(in_gutter);
    EXPECT_EQ(in_gutter->group, group.group);
    EXPECT_FALSE(in_gutter->pick);
  }
  EXPECT_FALSE(hit(picture, two.scene, 500, 2));
  EXPECT_FALSE(hit(picture, two.scene, 500, usual.height - 3));
  EXPECT_FALSE(hit(Made{}.picture(usual), {}, 500, 300));
}

// Curves of fractions and of more than an int64 holds have their heights, and say
// what their peaks are.
TEST(Layout, CurvesTellTrueValues) {
  for (const auto& [most, text] :
       {std::pair{0.45, "peak 0.45"}, std::pair{1.7e308, "peak 1.7e+308"},
        std::pair{450., "peak 450"}, std::pair{-2e-9, ""}}) {
    EventTrace events;
    events.counters.resize(1);
    events.counters[0].name = "GPU util";
    events.counters[0].track = 1;
    for (int i = 0; i <= 8; ++i) events.counters[0].samples.push_back({i * 1'000, most / 8 * i});
    for (int i = 7; i >= 0; --i) {
      events.counters[0].samples.push_back({(16 - i) * 1'000, most / 8 * i});
    }
    Made one;
    one.document.traces = {testing::open_trace(std::move(events))};
    one.scene = build_scene(one.document, {});
    one.view.range = one.scene.extent;
    const Picture picture = one.picture(usual);
    ASSERT_FALSE(picture.list.areas.empty());
    const auto& area = most > 0 ? picture.list.areas.front() : picture.list.areas.back();
    const std::set<std::int16_t> heights(area.tops.begin(), area.tops.end());
    EXPECT_GE(heights.size(), 8U) << most;
    const bool told = std::ranges::any_of(
        picture.list.texts, [&wanted = text](const auto& other) { return other.text == wanted; });
    EXPECT_EQ(told, most > 0) << most;
  }
}

// One that starts in free room is a tick of one column, hit from close by; what has a
// length is hit where it is.
TEST(Layout, HitFindsBarsOfNoLength) {
  for (const Canvas& canvas : {usual, fine}) {
    Made one = made(1, 1, 1);
    BarRow& row = one.scene.groups[0].lanes[0].rows[0];
    row = {};
    row.add({1'000, 1'000, 0, 0});
    row.add({2'000, 3'000, 1, 3});
    row.add({3'000, 3'000, 0, 0});
    row.finish();
    one.view.range = {0, 4'000};
    const Picture picture = one.picture(canvas);
    const int y = picture.rows.front().y + picture.rows.front().height / 2;
    const auto ref_at = [&](std::int64_t time_ns, int right) {
      const auto at = hit(picture, one.scene, picture.viewport.x_of(time_ns) + right, y);
      return at && at->pick ? at->pick->ref : no_ref;
    };
    const int reach = canvas.scaled(3);
    EXPECT_EQ(ref_at(1'000, 0), 0U);
    EXPECT_EQ(ref_at(1'000, reach), 0U);
    EXPECT_EQ(ref_at(1'000, -reach), 0U);
    EXPECT_EQ(ref_at(1'000, reach + 2), no_ref);
    EXPECT_EQ(ref_at(1'000, -reach - 2), no_ref);
    EXPECT_EQ(ref_at(3'000, -2), 1U);
    EXPECT_EQ(ref_at(3'000, 2), 0U);
    const Rgb colour = palette(Theme::light, Colouring::kind).shades[0];
    const auto& columns = picture.list.strips.front().columns;
    EXPECT_EQ(std::ranges::count(columns, colour), 2);
    EXPECT_EQ(columns[static_cast<std::size_t>(picture.viewport.x_of(1'000) - picture.viewport.x)],
              colour);
  }
}

TEST(Layout, FramesWhatIsPickedOnBothSides) {
  const Schedule schedule = generate(ScheduleRequest{"1f1b", 3, 4, {}, {}, {}});
  const auto run = [&](std::int64_t forward_ns) {
    return pipesim::testing::recorded(schedule,
                                      pipesim::testing::costs_of(3, forward_ns, 2'000'000));
  };
  Made two;
  two.document = testing::document_of(run(1'000'000), run(1'500'000));
  ASSERT_TRUE(two.document.pair);
  two.scene = build_scene(two.document, {});
  two.view.range = two.scene.extent;
  const auto frames = [&] {
    std::vector<DrawList::Box> found;
    const Picture picture = two.picture(usual);
    std::ranges::copy_if(picture.list.boxes, std::back_inserter(found),
                         [](const auto& box) { return box.framed; });
    return found;
  };
  EXPECT_TRUE(frames().empty());
  const BarRow& row = two.scene.groups[1].lanes[0].rows[0];
  std::size_t last = row.size() - 1;
  while (is_bubble(row[last].shade)) --last;
  two.view.picked = Pick{two.scene.groups[1].lanes[0].trace, row[last].ref, false};
  const auto found = frames();
  ASSERT_EQ(found.size(), 4U);  // each of two lines
  // The measured one ends later and stands below.
  EXPECT_GT(found[2].y, found[0].y + found[0].height / 2);
  EXPECT_GT(found[2].x, found[0].x);
  const Viewport viewport = two.picture(usual).viewport;
  const std::int64_t offset = two.scene.groups[1].lanes[0].offset_ns;
  EXPECT_EQ(found[0].x + 1, viewport.x_of(row.start_ns(last) + offset));
}

TEST(AxisText, HasTheDigitsThatAStepNeeds) {
  const auto time = [](std::int64_t ns, std::int64_t step) {
    return axis_text(ns, step, Alignment::iteration);
  };
  EXPECT_EQ(time(0, 5'000'000), "0 ms");
  EXPECT_EQ(time(12'500'000, 500'000), "12.5 ms");
  EXPECT_EQ(time(12'000'000, 500'000), "12.0 ms");
  EXPECT_EQ(time(-1'200'000, 200'000), "-1.2 ms");
  EXPECT_EQ(time(3'000'000'000, 1'000'000'000), "3 s");
  EXPECT_EQ(time(40, 20), "40 ns");
  EXPECT_EQ(time(123'456'789, 10), "123.45678 ms");
  EXPECT_EQ(time(13'000'000'100, 100), "13.0000001 s");
  EXPECT_EQ(axis_text(7'000, 1'000, Alignment::slot), "slot 7");
  EXPECT_EQ(axis_text(7'500, 1, Alignment::slot), "slot 7.5");
}

// Two instants a step apart read differently, and every text is short.
TEST(AxisText, TellsNeighboursApart) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::int64_t step = 1;
    for (auto i = random() % 12; i > 0; --i) step *= 10;
    constexpr std::array<std::int64_t, 3> digits{1, 2, 5};
    step *= digits[random() % 3];
    const auto time = static_cast<std::int64_t>(random() >> (2 + random() % 60)) / step * step;
    const std::string text = axis_text(time, step, Alignment::absolute);
    ASSERT_NE(text, axis_text(time + step, step, Alignment::absolute)) << time << " " << step;
    ASSERT_LE(text.size(), 24U);
  }
}

TEST(Overview, FramesAnotherRangeAsIfLaidOutAnew) {
  const Made two = made(4, 6, 2);
  const Palette colours = palette(Theme::dark, Colouring::kind);
  const Canvas strip{900, 60, 1, 7, 14};
  View other = two.view;
  other.range = {5'000, 5'100};
  DrawList list = layout_overview(two.document, two.scene, two.view, strip, colours);
  ASSERT_NE(to_text(list),
            to_text(layout_overview(two.document, two.scene, other, strip, colours)));
  frame_range(list, two.scene, other, strip, colours);
  EXPECT_EQ(to_text(list),
            to_text(layout_overview(two.document, two.scene, other, strip, colours)));
  EXPECT_EQ(overview_viewport(two.scene, strip).range, two.scene.extent);
}

TEST(Svg, EscapesWhatTracesSay) {
  DrawList list;
  list.width = 100;
  list.height = 50;
  list.texts.push_back({.width = 100, .height = 20, .text = "a<b> & \"c\" \x01\xff\xc3\xa4"});
  list.boxes.push_back({.x = 1, .y = 2, .width = 3, .height = 4, .fill = 0xabcdef, .opacity = 51});
  const std::string svg = to_svg(list, 12);
  EXPECT_NE(svg.find("a&lt;b&gt; &amp; &quot;c&quot; \xef\xbf\xbd\xef\xbf\xbd\xc3\xa4</text>"),
            std::string::npos);
  EXPECT_NE(
      svg.find(R"(<rect x="1" y="2" width="3" height="4" fill="#abcdef" fill-opacity="0.200"/>)"),
      std::string::npos);
}

// Parts of a strip lie in front of its columns, each down to the bottom.
TEST(Svg, StripsHaveAllTheirColours) {
  DrawList list;
  list.strips.push_back({2, 1, 4, {1, 1, 5}, {{0, 2, 3, 7}}});
  const std::string svg = to_svg(list, 12);
  const auto at = [&](std::string_view text) { return svg.find(text); };
  const auto behind = at(R"(<rect x="2" y="1" width="2" height="4" fill="#000001"/>)");
  EXPECT_LT(behind, at(R"(<rect x="2" y="4" width="2" height="1" fill="#000007"/>)"));
  EXPECT_NE(at(R"(<rect x="2" y="4" width="2" height="1" fill="#000007"/>)"), std::string::npos);
  EXPECT_NE(at(R"(<rect x="4" y="1" width="1" height="4" fill="#000005"/>)"), std::string::npos);
}

}  // namespace
}  // namespace pipesim::gui
