// Timelines below each other on one axis.
#include "traces/print/small_multiples.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/panels.h"

namespace pipesim {
namespace {

using testing::panel_of;
using testing::span_of;
using testing::two_panels;

TEST(SmallMultiples, ShareAnAxisAndALegend) {
  TimelineGroup group = two_panels();
  const std::string text = small_multiples(group, {40, false});
  EXPECT_EQ(text,
            "8 microbatches\n"
            "\n"
            "   0 us\n"
            "swift\n"
            "0  0F0---------1B0---\n"
            "<slow>\n"
            "0  0F0---------------------1B0---------\n"
            "   F forward; B backward\n"
            "   4B0: virtual stage 4, microbatch 0\n"
            "   blank: bubble\n");
  group.note = "others are longer";
  EXPECT_EQ(small_multiples(group, {40, false}), text + "others are longer\n");
}

// A panel whose times fit no column has all of them drawn by the same.
TEST(SmallMultiples, HaveColumnsOfTheSameTime) {
  TimelineGroup group = two_panels();
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

}  // namespace
}  // namespace pipesim
