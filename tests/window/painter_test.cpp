// Draw lists as pixels: exact where no letter and no slanted line is involved.
#include "gui/window/painter.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QFontInfo>

#include "gui/window/letters.h"

namespace pipesim::gui {
namespace {

constexpr Rgb white = 0xffffff;
constexpr Rgb red = 0xff0000;
constexpr Rgb blue = 0x0000ff;

DrawList blank(int width, int height) {
  DrawList list;
  list.width = width;
  list.height = height;
  list.background = white;
  return list;
}

Rgb at(const QImage& image, int x, int y) { return image.pixel(x, y) & 0xffffffU; }

// The colours of one row of pixels, a letter for each.
std::string row(const QImage& image, int y) {
  std::string text;
  for (int x = 0; x < image.width(); ++x) {
    const Rgb colour = at(image, x, y);
    text += colour == white ? '.' : colour == red ? 'r' : colour == blue ? 'b' : '?';
  }
  return text;
}
std::string all(const QImage& image) {
  std::string text;
  for (int y = 0; y < image.height(); ++y) text += row(image, y) + "\n";
  return text;
}

TEST(Painter, StripsFillTheirRowsAndNothingElse) {
  DrawList list = blank(6, 4);
  list.strips.push_back({1, 1, 2, {red, blue, blue, red}, {}});
  EXPECT_EQ(all(painted(list, 11)), "......\n.rbbr.\n.rbbr.\n......\n");
}

TEST(Painter, StripsHaveSeveralColoursInAColumn) {
  DrawList list = blank(5, 5);
  list.strips.push_back({1,
                         1,
                         3,
                         {red, red, blue},
                         {{0, 1, 1, blue}, {0, 1, 2, red}, {1, 2, 2, blue}, {2, 1, 1, red}}});
  EXPECT_EQ(all(painted(list, 11)), ".....\n.rrb.\n.brr.\n.rbr.\n.....\n");
  list.strips[0].x = -1;  // what lies outside is cut off
  list.strips[0].y = 3;
  EXPECT_EQ(all(painted(list, 11)), ".....\n.....\n.....\nrb...\nrr...\n");
}

TEST(Painter, WhatLiesOutsideIsCutOff) {
  DrawList list = blank(4, 3);
  list.strips.push_back({-2, -1, 2, {red, red, blue, red, red, red, red}, {}});
  list.strips.push_back({2, 2, 9, {blue, red, blue}, {}});
  list.strips.push_back({9, 0, 2, {red}, {}});
  list.strips.push_back({0, 9, 2, {red}, {}});
  list.boxes.push_back({-5, 1, 6, 1, blue});
  list.boxes.push_back({3, 1, 100, 1, red});
  EXPECT_EQ(all(painted(list, 11)), "brrr\nb..r\n..br\n");
}

TEST(Painter, BoxesAreFilledFramedOrBoth) {
  DrawList list = blank(7, 4);
  DrawList::Box frame{0, 0, 4, 4, red};
  frame.filled = false;
  frame.framed = true;
  frame.frame = blue;
  list.boxes.push_back(frame);
  DrawList::Box both = frame;
  both.x = 4;
  both.width = 3;
  both.filled = true;
  list.boxes.push_back(both);
  EXPECT_EQ(all(painted(list, 11)), "bbbbbbb\nb..bbrb\nb..bbrb\nbbbbbbb\n");
}

TEST(Painter, OpacityMixesWithWhatIsBelow) {
  DrawList list = blank(2, 1);
  list.grounds.push_back({0, 0, 1, 1, 0x204060});
  DrawList::Box box{0, 0, 2, 1, 0x000000};
  box.opacity = 51;  // a fifth
  list.boxes.push_back(box);
  const QImage image = painted(list, 11);
  EXPECT_EQ(at(image, 0, 0), 0x1a334dU);
  EXPECT_EQ(at(image, 1, 0), 0xccccccU);
}

TEST(Painter, AreasAreFilledBelowTheirLine) {
  DrawList list = blank(5, 4);
  DrawList::Area area{0, 0, 4, red, blue, true, {4, 2, 2, 0, 4}};
  list.areas.push_back(area);
  EXPECT_EQ(all(painted(list, 11)),
            "...b.\n"
            "...b.\n"
            ".bbb.\n"
            ".rrr.\n");
  list.areas.front().filled = false;
  EXPECT_EQ(all(painted(list, 11)), "...b.\n...b.\n.bbb.\n.....\n");
}

TEST(Painter, LayersLieInTheirOrder) {
  DrawList list = blank(4, 1);
  list.covers.push_back({3, 0, 1, 1, blue});
  list.lines.push_back({2, 0, 3, 0, red});
  list.boxes.push_back({1, 0, 3, 1, blue});
  list.strips.push_back({0, 0, 1, {red, red, red, red}, {}});
  list.grounds.push_back({0, 0, 4, 1, blue});
  EXPECT_EQ(all(painted(list, 11)), "rbrb\n");
}

TEST(Painter, StraightLinesHaveTheirWidth) {
  DrawList list = blank(5, 5);
  list.lines.push_back({1, 1, 3, 1, red});
  DrawList::Line wide{1, 3, 1, 4, blue};
  wide.width = 3;
  list.lines.push_back(wide);
  EXPECT_EQ(all(painted(list, 11)), ".....\n.rrr.\n.....\nbbb..\nbbb..\n");
}

TEST(Painter, AnArrowHasAHeadAtItsEnd) {
  DrawList list = blank(60, 21);
  DrawList::Line line{5, 10, 50, 10, red};
  line.arrow = true;
  list.lines.push_back(line);
  const QImage image = painted(list, 11);
  const auto thickness = [&](int x) {
    int pixels = 0;
    for (int y = 0; y < image.height(); ++y) pixels += at(image, x, y) != white;
    return pixels;
  };
  EXPECT_EQ(thickness(10), 1);
  EXPECT_GT(thickness(45), 3);
  EXPECT_EQ(thickness(4), 0);
  EXPECT_EQ(thickness(53), 0);
}

// The columns in which anything but the background is.
std::pair<int, int> inked(const QImage& image) {
  int first = image.width();
  int last = -1;
  for (int x = 0; x < image.width(); ++x) {
    for (int y = 0; y < image.height(); ++y) {
      if (at(image, x, y) == white) continue;
      first = std::min(first, x);
      last = x;
    }
  }
  return {first, last};
}

DrawList::Text words(const std::string& text, int x, int width, DrawList::Align align) {
  DrawList::Text result;
  result.x = x;
  result.width = width;
  result.height = 20;
  result.align = align;
  result.text = text;
  return result;
}

TEST(Painter, TextsStayWithinTheirBoxes) {
  for (const auto align :
       {DrawList::Align::left, DrawList::Align::centre, DrawList::Align::right}) {
    for (const int width : {8, 20, 35, 200}) {
      for (const bool bold : {false, true}) {
        DrawList list = blank(300, 20);
        list.texts.push_back(words("measured 12.5 ms", 50, width, align));
        list.texts.back().bold = bold;
        const auto [first, last] = inked(painted(list, 11));
        EXPECT_GE(first, 49) << width;
        EXPECT_LE(last, 50 + width) << width;
      }
    }
  }
}

TEST(Painter, TextsAreAligned) {
  const auto ink = [](DrawList::Align align) {
    DrawList list = blank(300, 20);
    list.texts.push_back(words("2F10", 50, 200, align));
    return inked(painted(list, 11));
  };
  const auto [left, left_end] = ink(DrawList::Align::left);
  const auto [right, right_end] = ink(DrawList::Align::right);
  const auto [centre, centre_end] = ink(DrawList::Align::centre);
  EXPECT_NEAR(left, 50, 2);
  EXPECT_NEAR(right_end, 249, 2);
  EXPECT_NEAR((centre + centre_end) / 2.0, 150, 2);
  EXPECT_EQ(left_end - left, right_end - right);
}

TEST(Painter, BoldIsBolderAndBothAreOurs) {
  const auto ink = [](bool bold) {
    DrawList list = blank(300, 20);
    list.texts.push_back(words("rank 10", 0, 300, DrawList::Align::left));
    list.texts.back().bold = bold;
    const QImage image = painted(list, 11);
    std::int64_t dark = 0;
    for (int y = 0; y < image.height(); ++y) {
      for (int x = 0; x < image.width(); ++x) dark += 255 - qGray(image.pixel(x, y));
    }
    return dark;
  };
  EXPECT_GT(ink(true), ink(false) * 5 / 4);
  EXPECT_EQ(QFontInfo(letters(11)).family(), "Pipeview Sans");
  EXPECT_TRUE(QFontInfo(letters(11, true)).bold());
}

TEST(Painter, TheSameListIsTheSamePictureAgain) {
  DrawList list = blank(200, 40);
  list.texts.push_back(words("2F10", 3, 100, DrawList::Align::left));
  list.texts.push_back(words("a long name that is cut", 3, 60, DrawList::Align::left));
  list.texts.back().y = 20;
  Painter painter(11);
  QImage first;
  QImage second;
  painter.paint(list, first);
  painter.paint(list, second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, painted(list, 11));
  second.setDevicePixelRatio(2);  // as whoever showed it may have left it
  painter.paint(list, second);
  EXPECT_EQ(first, second);
  painter.paint(blank(200, 40), second);
  EXPECT_EQ(second, painted(blank(200, 40), 11));
}

TEST(Letters, CanvasesGrowWithTheScale) {
  const Canvas plain = canvas_of(100, 50, 1);
  const Canvas fine = canvas_of(200, 100, 2);
  EXPECT_NEAR(fine.char_width, 2 * plain.char_width, 2);
  EXPECT_NEAR(fine.text_height, 2 * plain.text_height, 2);
  EXPECT_GE(plain.char_width, 6);
}

}  // namespace
}  // namespace pipesim::gui
