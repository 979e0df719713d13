// Rows of bars and curves against plain loops over all of them.
#include "gui/scene/bars.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "gui/layout/columns.h"
#include "gui/layout/palette.h"
#include "gui/scene/curve.h"

namespace pipesim::gui {
namespace {

using Random = std::mt19937_64;

std::int64_t below(Random& random, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(0, most - 1)(random);
}

// Some bars of no length, some next to each other, some with room between; now and then one, or
// the room before it, that is so many times as long.
std::vector<Bar> random_bars(Random& random, int count, std::int64_t stretched = 1) {
  std::vector<Bar> bars;
  std::int64_t now = below(random, 1'000) - 500;
  for (int i = 0; i < count; ++i) {
    const auto times = [&] { return stretched > 1 && below(random, 40) == 0 ? stretched : 1; };
    now += below(random, 3) == 0 ? times() * below(random, 200) : 0;
    const std::int64_t length = below(random, 5) == 0 ? 0 : times() * below(random, 100);
    bars.push_back(
        {now, now + length, static_cast<Ref>(i), static_cast<Shade>(below(random, shade_count))});
    now += length;
  }
  return bars;
}

BarRow bar_row(const std::vector<Bar>& bars) {
  BarRow row;
  for (const Bar& bar : bars) row.add(bar);
  row.finish();
  return row;
}

ShadeTimes filled_by_loop(const std::vector<Bar>& bars, std::int64_t time_ns) {
  ShadeTimes filled{};
  for (const Bar& bar : bars) {
    filled[bar.shade] += std::max<std::int64_t>(std::min(bar.end_ns, time_ns) - bar.start_ns, 0);
  }
  return filled;
}

// Instants around every bar's ends, and far outside.
std::vector<std::int64_t> instants_of(const std::vector<Bar>& bars) {
  std::vector<std::int64_t> instants{std::int64_t{-1} << 62, std::int64_t{1} << 62};
  for (const Bar& bar : bars) {
    for (const std::int64_t time : {bar.start_ns, bar.end_ns}) {
      for (const std::int64_t near : {-1, 0, 1}) instants.push_back(time + near);
    }
  }
  std::ranges::sort(instants);
  return instants;
}

constexpr std::array sizes{0, 1, 2, 15, 16, 17, 32, 33, 100, 1'000};
// What is longer than 4 s has its own place in a row.
constexpr std::int64_t into_seconds = 300'000'000;

TEST(BarRow, FindsAndSumsWhatALoopDoes) {
  Random random(1);
  for (const int size : sizes) {
    const std::vector<Bar> bars = random_bars(random, size, size % 2 == 0 ? 1 : into_seconds);
    const BarRow row = bar_row(bars);
    ASSERT_EQ(row.size(), bars.size());
    for (std::size_t i = 0; i < bars.size(); ++i) ASSERT_EQ(row[i], bars[i]);
    for (const std::int64_t time : instants_of(bars)) {
      const auto after = std::ranges::find_if(bars, [&](const Bar& b) { return b.end_ns > time; });
      ASSERT_EQ(row.first_ending_after(time), static_cast<std::size_t>(after - bars.begin()));
      const bool covered = after != bars.end() && after->start_ns <= time;
      ASSERT_EQ(row.at(time).has_value(), covered);
      if (covered) {
        ASSERT_EQ(bars[*row.at(time)], *after);
      }
      ASSERT_EQ(row.filled_before(time), filled_by_loop(bars, time));
    }
  }
}

TEST(BarRow, SweepsToTheSameSums) {
  Random random(2);
  for (const int size : sizes) {
    const std::vector<Bar> bars = random_bars(random, size, size % 2 == 0 ? into_seconds : 1);
    const BarRow row = bar_row(bars);
    const std::vector<std::int64_t> instants = instants_of(bars);
    // Every instant; then ever farther ones, over many blocks at once.
    for (std::size_t step = 1; step <= instants.size(); step = step * 3 + 1) {
      BarRow::Sweep sweep(row);
      for (std::size_t i = 0; i < instants.size(); i += step) {
        ASSERT_EQ(sweep.filled_before(instants[i]), row.filled_before(instants[i]));
        ASSERT_EQ(sweep.next(), row.first_ending_after(instants[i]));
      }
    }
  }
}

// At least what is longest, and no more than is anywhere in the row.
TEST(BarRow, TellsHowLongBarsAreFromAnInstantOn) {
  Random random(11);
  const std::vector<Bar> bars = random_bars(random, 1'000, 50);
  const BarRow row = bar_row(bars);
  const auto longest_between = [&](std::int64_t from_ns, std::int64_t to_ns) {
    std::int64_t longest_ns = 0;
    for (std::size_t i = 0; i < bars.size(); ++i) {
      if (bars[i].end_ns > from_ns && bars[i].start_ns < to_ns) {
        longest_ns = std::max(longest_ns, bars[i].end_ns - bars[i].start_ns);
      }
      if (i > 0 && bars[i].start_ns > from_ns && bars[i - 1].end_ns < to_ns) {
        longest_ns = std::max(longest_ns, bars[i].start_ns - bars[i - 1].end_ns);
      }
    }
    return longest_ns;
  };
  const std::int64_t whole_ns = longest_between(bars.front().start_ns, bars.back().end_ns);
  int shorter = 0;
  for (int round = 0; round < 300; ++round) {
    const std::int64_t from_ns = below(random, bars.back().end_ns);
    const std::int64_t to_ns = from_ns + 1 + below(random, 20'000);
    BarRow::Sweep sweep(row);
    sweep.filled_before(from_ns);
    const std::int64_t told_ns = sweep.longest_until(to_ns);
    ASSERT_GE(told_ns, longest_between(from_ns, to_ns));
    if (to_ns >= bars.back().end_ns) continue;
    ASSERT_LE(told_ns, whole_ns);
    shorter += told_ns < whole_ns ? 1 : 0;
  }
  EXPECT_GT(shorter, 100);
}

TEST(BarRow, TellsWhichShadesTakeTime) {
  const BarRow row = bar_row({{0, 5, 0, 3}, {5, 5, 1, 4}, {6, 9, 2, 11}, {9, 10, 3, 3}});
  EXPECT_TRUE(std::ranges::equal(row.shades(), std::array<Shade, 2>{3, 11}));
  EXPECT_TRUE(row.has(3));
  EXPECT_FALSE(row.has(4));
  EXPECT_TRUE(BarRow().shades().empty());
}

TEST(BarRow, SumsAnewWhenShadesChange) {
  Random random(3);
  std::vector<Bar> bars = random_bars(random, 200);
  BarRow row = bar_row(bars);
  const auto next = [](const Bar& bar) { return static_cast<Shade>((bar.ref * 7 + 1) % 5); };
  row.reshade(next);
  for (Bar& bar : bars) bar.shade = next(bar);
  for (const std::int64_t time : instants_of(bars)) {
    ASSERT_EQ(row.filled_before(time), filled_by_loop(bars, time));
  }
}

DrawList::Strip strip_of(int width, int height, Rgb ground) {
  return {0, 0, height, std::vector<Rgb>(static_cast<std::size_t>(width), ground), {}};
}

// The colours of a column, from top to bottom.
std::vector<Rgb> column_of(const DrawList::Strip& strip, std::size_t x) {
  std::vector<Rgb> rows(static_cast<std::size_t>(strip.height), strip.columns[x]);
  for (const auto& part : strip.parts) {
    const int column = static_cast<int>(x) - part.column;
    if (column >= 0 && column < part.width) {
      std::fill(rows.begin() + part.top, rows.end(), part.colour);
    }
  }
  return rows;
}

using Parts = std::vector<DrawList::Strip::Part>;

constexpr Rgb red = 0xff0000;
constexpr Rgb green = 0x00ff00;
constexpr Rgb ground = 0x0000ff;

// A column is 1 s.
TEST(Columns, ShowBarsHoweverShort) {
  const BarRow row = bar_row({{0, 1, 0, 0}, {1'500'000'000, 1'700'000'000, 1, 0}});
  RowPaint paint;
  paint.shades[0] = red;
  for (const int height : {16, 1}) {
    DrawList::Strip strip = strip_of(3, height, ground);
    paint_row(row, paint, column_times({{0, 3'000'000'000}, 0, 3}), strip);
    const Rgb top = height == 1 ? red : ground;
    EXPECT_EQ(strip.columns, (std::vector<Rgb>{top, top, ground}));
    // Three eighths.
    EXPECT_EQ(strip.parts, height == 1 ? Parts{} : (Parts{{0, 1, 10, red}, {1, 1, 10, red}}));
  }
}

// A column is 10 ns.
TEST(Columns, AreStacksOfWhatBarsFill) {
  const BarRow row = bar_row({{0, 10, 0, 0},
                              {12, 15, 1, 0},
                              {15, 20, 2, 1},
                              {25, 40, 3, 0},
                              {40, 60, 4, 1},
                              {60, 66, 5, 8}});
  RowPaint paint;
  paint.shades[0] = red;
  paint.shades[1] = green;
  paint.shades[8] = 0xd0d0d0;
  paint.least_wide = 2;
  DrawList::Strip strip = strip_of(8, 10, ground);
  std::vector<WideBar> wide;
  paint_row(row, paint, column_times({{0, 80}, 0, 8}), strip, &wide);
  // A wide bar has its columns to itself, and most of column 6 is a bubble's.
  EXPECT_EQ(strip.columns,
            (std::vector<Rgb>{ground, ground, ground, ground, green, green, 0xd0d0d0, ground}));
  // Of the first four 7 of 40 ns are idle, 5 green, 28 red.
  EXPECT_EQ(strip.parts, (Parts{{0, 4, 2, green}, {0, 4, 3, red}}));
  ASSERT_EQ(wide.size(), 1U);
  EXPECT_EQ(wide[0].bar, 4U);
  EXPECT_EQ(wide[0].first, 4);
  EXPECT_EQ(wide[0].last, 6);
}

// Where they meet within a column, it belongs to one of them and not to both.
TEST(Columns, OfWideBarsHaveOneColour) {
  RowPaint paint;
  paint.shades[0] = red;
  paint.shades[1] = green;
  paint.least_wide = 2;
  for (const auto& [end, columns] :
       {std::pair{26, std::vector<Rgb>{red, red, red, green, green, ground}},
        std::pair{24, std::vector<Rgb>{red, red, green, green, green, ground}}}) {
    const BarRow row = bar_row({{0, end, 0, 0}, {end, 50, 1, 1}});
    DrawList::Strip strip = strip_of(6, 10, ground);
    std::vector<WideBar> wide;
    paint_row(row, paint, column_times({{0, 60}, 0, 6}), strip, &wide);
    EXPECT_EQ(strip.columns, columns);
    EXPECT_TRUE(strip.parts.empty());
    ASSERT_EQ(wide.size(), 2U);
    EXPECT_EQ(wide[0].last, end == 26 ? 3 : 2);
    EXPECT_EQ(wide[1].first, wide[0].last);
    EXPECT_EQ(wide[1].last, 5);
  }
}

// Rows drawn over others leave them where they have no bars.
TEST(Columns, LieAboveEachOther) {
  RowPaint paint;
  paint.shades[0] = red;
  paint.shades[1] = green;
  DrawList::Strip strip = strip_of(3, 10, ground);
  const auto times = column_times({{0, 30}, 0, 3});
  paint_row(bar_row({{0, 5, 0, 0}, {12, 18, 1, 0}, {25, 30, 2, 0}}), paint, times, strip);
  paint_row(bar_row({{10, 14, 0, 1}}), paint, times, strip);
  using Column = std::vector<Rgb>;
  const auto half = [](Rgb colour, int rows) {
    Column made(10, ground);
    std::fill(made.end() - rows, made.end(), colour);
    return made;
  };
  EXPECT_EQ(column_of(strip, 0), half(red, 5));
  EXPECT_EQ(column_of(strip, 1), half(green, 4));
  EXPECT_EQ(column_of(strip, 2), half(red, 5));
}

double sum_of(const ShadeTimes& times) {
  return static_cast<double>(std::accumulate(times.begin(), times.end(), std::int64_t{0}));
}

ShadeTimes filled_between(const std::vector<Bar>& bars, std::int64_t from, std::int64_t to) {
  ShadeTimes filled = filled_by_loop(bars, to);
  const ShadeTimes before = filled_by_loop(bars, from);
  for (std::size_t shade = 0; shade < shade_count; ++shade) filled[shade] -= before[shade];
  return filled;
}

// Each shade is drawn as itself.
RowPaint plain_paint(Random& random) {
  RowPaint paint;
  for (Shade shade = 0; shade < shade_count; ++shade) paint.shades[shade] = shade;
  paint.offset_ns = below(random, 1'000) - 500;
  return paint;
}
constexpr Rgb behind = shade_count;

// Zoomed out, rows of pixels of each colour are, but for rounding, what a loop over all bars
// finds in the column's cell, the power of two that 12 columns need; no colour is there that
// no shade has; and bubbles are above work.
TEST(Columns, AreTheSharesOfALoopInTheirCells) {
  Random random(4);
  for (int round = 0; round < 100; ++round) {
    // Of the more each cell is looked at in one go, except where a bar is as long as a column.
    std::vector<Bar> bars = random_bars(random, round % 2 == 0 ? 300 : 1'000);
    std::erase_if(bars, [](const Bar& bar) { return bar.start_ns == bar.end_ns; });
    const RowPaint paint = plain_paint(random);
    const int width = 20 + static_cast<int>(below(random, 100));
    // No bar is four columns long.
    const std::int64_t column_ns = 90 + below(random, round % 4 == 1 ? 2'000 : 400);
    const std::int64_t first = bars.front().start_ns + below(random, 4'000) - 500;
    const auto times = column_times(
        {{first + paint.offset_ns, first + paint.offset_ns + width * column_ns}, 3, width});
    std::int64_t cell_ns = 1;
    while (cell_ns < 12 * column_ns) cell_ns *= 2;
    const auto cell_of = [&](std::size_t x) { return (times[x] + 1'000'000 * cell_ns) / cell_ns; };
    DrawList::Strip strip = strip_of(width, 1 + static_cast<int>(below(random, 40)), behind);
    paint_row(bar_row(bars), paint, times, strip);
    // Of idle time at the ends nothing is drawn.
    const auto drawn = [&](std::size_t x) {
      return times[x + 1] - paint.offset_ns > bars.front().start_ns &&
             times[x] - paint.offset_ns < bars.back().end_ns;
    };
    for (std::size_t x = 0; x < strip.columns.size(); ++x) {
      const std::vector<Rgb> rows = column_of(strip, x);
      if (!drawn(x)) {
        ASSERT_EQ(std::ranges::count(rows, behind), strip.height);
        continue;
      }
      std::size_t from = x;
      while (from > 0 && cell_of(from - 1) == cell_of(x) && drawn(from - 1)) --from;
      std::size_t to = x + 1;
      while (to < strip.columns.size() && cell_of(to) == cell_of(x) && drawn(to)) ++to;
      if (to - from < 8) continue;  // too narrow for a stack of its own
      const ShadeTimes filled =
          filled_between(bars, times[from] - paint.offset_ns, times[to] - paint.offset_ns);
      const double all = sum_of(filled);
      const double height = strip.height;
      const double busy =
          all == 0 ? 0 : std::max(height * all / static_cast<double>(times[to] - times[from]), 1.);
      ASSERT_NEAR(static_cast<double>(std::ranges::count(rows, behind)), height - busy, 0.51);
      for (Shade shade = 0; shade < shade_count; ++shade) {
        ASSERT_NEAR(static_cast<double>(std::ranges::count(rows, Rgb{shade})),
                    all == 0 ? 0 : static_cast<double>(filled[shade]) / all * busy, 1.01);
      }
      const auto first_work = std::ranges::find_if(rows, [&](Rgb colour) {
        return colour != behind && !is_bubble(static_cast<Shade>(colour)) && colour != wait_shade;
      });
      EXPECT_TRUE(std::none_of(first_work, rows.end(),
                               [](Rgb colour) { return is_bubble(static_cast<Shade>(colour)); }));
    }
  }
}

// Zoomed in, a column has the colour of what it has the most of; but work that begins and
// ends within it is shown.
TEST(Columns, AreWhoseMostTheyAre) {
  Random random(8);
  int within = 0;
  for (int round = 0; round < 200; ++round) {
    const std::int64_t column_ns = 1 + below(random, 40);
    const int width = 20 + static_cast<int>(below(random, 100));
    std::vector<Bar> bars;
    std::int64_t now = below(random, 1'000) - 500;
    while (std::ssize(bars) < 50) {
      // Wide ones and some that are far less than a column; or all are nearly wide.
      const bool is_short = round % 2 == 0 && !bars.empty() && below(random, 5) == 0 &&
                            bars.back().end_ns - bars.back().start_ns > column_ns;
      const std::int64_t least = is_short ? 1 : (round % 2 == 0 ? 4 : 3) * column_ns;
      const std::int64_t length = least + below(random, is_short ? column_ns : 5 * column_ns);
      now += below(random, 3) * below(random, column_ns);
      bars.push_back({now, now + length, 0, static_cast<Shade>(below(random, shade_count))});
      now += length;
    }
    const RowPaint paint = plain_paint(random);
    const std::int64_t first = bars.front().start_ns + below(random, 40 * column_ns) - 10;
    const auto times = column_times(
        {{first + paint.offset_ns, first + paint.offset_ns + width * column_ns}, 3, width});
    DrawList::Strip strip = strip_of(width, 20, behind);
    paint_row(bar_row(bars), paint, times, strip);
    for (std::size_t x = 0; x < strip.columns.size(); ++x) {
      const std::int64_t from = times[x] - paint.offset_ns;
      const std::int64_t to = times[x + 1] - paint.offset_ns;
      const std::vector<Rgb> rows = column_of(strip, x);
      const ShadeTimes filled = filled_between(bars, from, to);
      const bool has_short = std::ranges::any_of(bars, [&](const Bar& bar) {
        return bar.start_ns >= from && bar.end_ns <= to && !is_bubble(bar.shade);
      });
      if (has_short && column_ns > 1) {
        ASSERT_GE(std::ranges::count_if(rows, [](Rgb colour) { return colour != behind; }), 7);
        ++within;
        continue;
      }
      ASSERT_EQ(std::ranges::count(rows, rows.front()), 20);
      const double own = rows.front() == behind ? static_cast<double>(to - from) - sum_of(filled)
                                                : static_cast<double>(filled[rows.front()]);
      ASSERT_GE(3 * own, static_cast<double>(to - from));
    }
  }
  EXPECT_GT(within, 100);
}

// Ranges of less than a nanosecond look like their neighbours.
TEST(Columns, OfLessThanANanosecondAreAlike) {
  RowPaint paint;
  paint.shades[0] = red;
  DrawList::Strip strip = strip_of(60, 10, ground);
  paint_row(bar_row({{3, 11, 0, 0}}), paint, column_times({{0, 20}, 0, 60}), strip);
  for (int x = 0; x < 60; ++x) {
    EXPECT_EQ(strip.columns[static_cast<std::size_t>(x)], x < 9 || x >= 33 ? ground : red) << x;
  }
  EXPECT_TRUE(strip.parts.empty());
}

// Each column that bars fill by less than half shows the first bar of no length in it,
// whatever the zoom; the others show none.
TEST(Columns, ShowBarsOfNoLengthWhereTheyAreFree) {
  Random random(6);
  int shown = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Bar> bars = random_bars(random, 300);
    if (round % 4 == 0) {  // nothing else
      for (Bar& bar : bars) bar.end_ns = bar.start_ns;
    }
    RowPaint paint = plain_paint(random);
    for (Bar& bar : bars) {  // two shades are theirs alone
      if (bar.start_ns != bar.end_ns) {
        bar.shade = static_cast<Shade>(bar.shade % 6);
      } else if (!is_bubble(bar.shade)) {
        bar.shade = static_cast<Shade>(6 + bar.shade % 2);
      }
    }
    const int width = 1 + static_cast<int>(below(random, 60));
    const std::int64_t first = bars.front().start_ns + paint.offset_ns + below(random, 4'000) - 500;
    const std::int64_t length =
        std::max<std::int64_t>(std::int64_t{1} << below(random, 15), min_range_ns);
    const auto times = column_times({{first, first + length}, 0, width});
    DrawList::Strip strip = strip_of(width, 12, behind);
    paint_row(bar_row(bars), paint, times, strip);
    for (std::size_t x = 0; x < strip.columns.size(); ++x) {
      const std::int64_t from = times[x] - paint.offset_ns;
      const std::int64_t to = times[x + 1] - paint.offset_ns;
      const auto instant = std::ranges::find_if(bars, [&](const Bar& bar) {
        return bar.start_ns == bar.end_ns && bar.start_ns >= from && bar.start_ns < to &&
               !is_bubble(bar.shade);
      });
      const bool shows = instant != bars.end() && 2 * sum_of(filled_between(bars, from, to)) <
                                                      static_cast<double>(to - from);
      const std::vector<Rgb> rows = column_of(strip, x);
      const auto of_instants =
          std::ranges::count_if(rows, [](Rgb colour) { return colour == 6 || colour == 7; });
      ASSERT_EQ(of_instants, shows ? 12 : 0);
      if (shows) {
        ASSERT_EQ(rows.front(), instant->shade);
      }
      shown += shows ? 1 : 0;
    }
  }
  EXPECT_GT(shown, 100);
}

// The values that a loop finds in [from, to), the one at `from` included.
std::vector<std::int64_t> values_by_loop(const std::vector<CurvePoint>& points, std::int64_t from,
                                         std::int64_t to) {
  std::vector<std::int64_t> values;
  std::optional<std::int64_t> held;
  for (const CurvePoint& point : points) {
    if (point.time_ns <= from) held = point.value;
    if (point.time_ns > from && point.time_ns < to) values.push_back(point.value);
  }
  if (held) values.push_back(*held);
  return values;
}

TEST(Curve, HasTheExtremesOfALoop) {
  Random random(5);
  for (const int size : sizes) {
    Curve curve;
    std::vector<CurvePoint> points;
    std::int64_t now = 0;
    for (int i = 0; i < size; ++i) {
      now += 1 + below(random, 20);
      points.push_back({now, below(random, 1'000) - 300});
      curve.add({now, 5'000});  // of points at one instant the last counts
      curve.add(points.back());
    }
    curve.finish();
    ASSERT_EQ(curve.size(), points.size());
    if (points.empty()) {
      EXPECT_FALSE(curve.value_at(0));
      EXPECT_FALSE(curve.extremes(0, 10));
      continue;
    }
    EXPECT_EQ(curve.peak(), *std::ranges::max_element(points, {}, &CurvePoint::value));
    for (int round = 0; round < 300; ++round) {
      const std::int64_t from = below(random, now + 60) - 30;
      const std::int64_t to = from + below(random, 2) * below(random, now + 60);
      const auto values = values_by_loop(points, from, to);
      const auto extremes = curve.extremes(from, to);
      ASSERT_EQ(extremes.has_value(), !values.empty()) << from << " " << to;
      if (!extremes) continue;
      ASSERT_EQ(extremes->least, std::ranges::min(values));
      ASSERT_EQ(extremes->most, std::ranges::max(values));
      const auto held = values_by_loop(points, from, from);
      ASSERT_EQ(curve.value_at(from), held.empty() ? std::nullopt : std::optional(held.front()));
    }
    // Stretch by stretch, each of any length.
    std::int64_t from = -10;
    Curve::Sweep sweep(curve, from);
    while (from < now + 50) {
      const std::int64_t to = from + below(random, 40);
      const auto values = values_by_loop(points, from, to);
      const auto swept = sweep.until(to);
      ASSERT_EQ(swept.has_value(), !values.empty());
      if (swept) {
        ASSERT_EQ(swept->least, std::ranges::min(values));
        ASSERT_EQ(swept->most, std::ranges::max(values));
      }
      from = to;
    }
  }
}

// Stretches with many points may end a little early, but together they have all of them, and no
// stretch has others than its own and a few before.
TEST(Curve, SweepsOverManyPointsWithoutLosingAny) {
  Random random(9);
  Curve curve;
  std::vector<CurvePoint> points;
  for (int i = 0; i < 20'000; ++i) {
    points.push_back({10 * i, below(random, 1'000'000)});
    curve.add(points.back());
  }
  curve.finish();
  for (const std::int64_t step : {150, 700, 1'000, 9'990}) {
    std::int64_t from = 0;
    Curve::Sweep sweep(curve, from);
    std::int64_t most = 0;
    std::int64_t least = 1'000'000;
    while (from < 200'000) {
      const auto swept = sweep.until(from + step);
      ASSERT_TRUE(swept);
      const auto wide = curve.extremes(from - 170, from + step);
      ASSERT_GE(swept->least, wide->least);
      ASSERT_LE(swept->most, wide->most);
      const auto narrow = curve.extremes(from, from + step - 170);
      if (step > 170) {
        ASSERT_LE(swept->least, narrow->least);
        ASSERT_GE(swept->most, narrow->most);
      }
      most = std::max(most, swept->most);
      least = std::min(least, swept->least);
      from += step;
    }
    EXPECT_EQ(most, curve.extremes().most);
    EXPECT_EQ(least, curve.extremes().least);
  }
}

TEST(Palette, TellsShadesApartAndLetsBubblesRecede) {
  const auto distance = [](Rgb a, Rgb b) {
    int sum = 0;
    for (const int shift : {16, 8, 0}) {
      const int channel = static_cast<int>(a >> shift & 0xff) - static_cast<int>(b >> shift & 0xff);
      sum += channel * channel;
    }
    return sum;
  };
  for (const Theme theme : {Theme::light, Theme::dark}) {
    for (const Colouring colouring : {Colouring::kind, Colouring::microbatch, Colouring::error}) {
      const Palette colours = palette(theme, colouring);
      for (int a = 0; a < first_bubble_shade + 4; ++a) {
        const auto shade = static_cast<std::size_t>(a);
        for (std::size_t b = 0; b < shade; ++b) {
          // Input gradients and backwards are both orange, the bubbles all pale.
          const int least = a >= first_bubble_shade && b >= first_bubble_shade ? 300 : 600;
          EXPECT_GT(distance(colours.shades[shade], colours.shades[b]), least) << a << " " << b;
        }
        const int from_ground = distance(colours.shades[shade], colours.background);
        if (a < first_bubble_shade) {
          EXPECT_GT(from_ground, 2'000);
        } else {
          EXPECT_LT(from_ground, 5'000);
        }
      }
      EXPECT_NE(is_light(colours.text), is_light(colours.background));
    }
  }
}

double brightness(Rgb colour) {
  const auto part = [&](int shift) {
    const double value = (colour >> shift & 0xff) / 255.;
    return value <= 0.03928 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0);
}

// As web pages are judged.
double contrast(Rgb one, Rgb other) {
  const double dark = std::min(brightness(one), brightness(other));
  const double light = std::max(brightness(one), brightness(other));
  return (light + 0.05) / (dark + 0.05);
}

// Labels are read on each, and none is a bubble's.
TEST(Palette, TakesLaterChunksStepByStepTowardsThePaper) {
  for (const Theme theme : {Theme::light, Theme::dark}) {
    const Palette colours = palette(theme, Colouring::kind);
    for (Shade shade = first_lighter_shade; shade < shade_count; ++shade) {
      const Rgb own = colours.shades[shade];
      const Shade before =
          shade < first_lighter_shade + 4 ? full_shade(shade) : static_cast<Shade>(shade - 4);
      EXPECT_LT(contrast(own, colours.background),
                contrast(colours.shades[before], colours.background));
      EXPECT_GT(contrast(own, is_light(own) ? colours.on_bar : colours.on_dark_bar), 3.5);
      for (Shade bubble = first_bubble_shade; is_bubble(bubble); ++bubble) {
        EXPECT_GT(contrast(own, colours.shades[bubble]), 1.1);
      }
    }
  }
}

}  // namespace
}  // namespace pipesim::gui
