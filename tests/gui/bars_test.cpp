// Rows of bars and curves against plain loops over all of them.
#include "gui/scene/bars.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// Some bars of no length, some next to each other, some with room between.
std::vector<Bar> random_bars(Random& random, int count) {
  std::vector<Bar> bars;
  std::int64_t now = below(random, 1'000) - 500;
  for (int i = 0; i < count; ++i) {
    now += below(random, 3) == 0 ? below(random, 200) : 0;
    const std::int64_t length = below(random, 5) == 0 ? 0 : below(random, 100);
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

TEST(BarRow, FindsAndSumsWhatALoopDoes) {
  Random random(1);
  for (const int size : sizes) {
    const std::vector<Bar> bars = random_bars(random, size);
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
    const std::vector<Bar> bars = random_bars(random, size);
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

// A column is 1 s.
TEST(Columns, ShowBarsHoweverShort) {
  const BarRow row = bar_row({{0, 1, 0, 0}, {1'500'000'000, 1'700'000'000, 1, 0}});
  RowPaint paint;
  paint.shades[0] = 0xff0000;
  std::vector<Rgb> columns(3, 0x0000ff);
  paint_row(row, paint, column_times({{0, 3'000'000'000}, 0, 3}), columns);
  const Rgb seen = 96 << 16 | 159;  // three eighths of 255, and the rest
  EXPECT_EQ(columns, (std::vector<Rgb>{seen, seen, 0x0000ff}));
}

TEST(Columns, HoldTheMeanOfWhatABarFills) {
  // A column is 10 ns. One shade is red only, so that its channel tells its share.
  const BarRow row = bar_row({{0, 10, 0, 0}, {12, 15, 1, 0}, {15, 20, 2, 1}, {35, 60, 3, 1}});
  RowPaint paint;
  paint.shades[0] = 0xff0000;
  paint.shades[1] = 0x00ff00;
  const std::vector<std::int64_t> times = column_times({{0, 80}, 0, 8});
  std::vector<Rgb> columns(8, 0x0000ff);
  std::vector<WideBar> wide;
  paint.least_wide = 2;
  paint_row(row, paint, times, columns, &wide);
  const Rgb ground = 0x0000ff;
  const Rgb mixed = 76 << 16 | 128 << 8 | 51;  // 3, 5 and 2 tenths of 255
  EXPECT_EQ(columns, (std::vector<Rgb>{0xff0000, mixed, ground, 128 << 8 | 128, 0x00ff00, 0x00ff00,
                                       ground, ground}));
  ASSERT_EQ(wide.size(), 1U);
  EXPECT_EQ(wide[0].bar, 3U);
  EXPECT_EQ(wide[0].first, 4);
  EXPECT_EQ(wide[0].last, 6);
}

TEST(Columns, AreTheMeansOfALoopWhateverTheZoom) {
  Random random(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<Bar> bars = random_bars(random, 300);
    std::erase_if(bars, [](const Bar& bar) { return bar.start_ns == bar.end_ns; });
    const BarRow row = bar_row(bars);
    RowPaint paint;
    for (Rgb& shade : paint.shades) shade = static_cast<Rgb>(random() & 0xffffff);
    paint.offset_ns = below(random, 1'000) - 500;
    const std::int64_t first = bars.front().start_ns + below(random, 4'000) - 500;
    const int width = 1 + static_cast<int>(below(random, 60));
    // From far less than a column a bar to more bars than columns.
    const std::int64_t length =
        std::max<std::int64_t>(std::int64_t{1} << below(random, 15), least_range_ns);
    const auto times =
        column_times({{first + paint.offset_ns, first + paint.offset_ns + length}, 3, width});
    std::vector<Rgb> columns(static_cast<std::size_t>(width), 0x808080);
    paint_row(row, paint, times, columns);
    Rgb before = 0;
    for (std::size_t x = 0; x < columns.size(); ++x) {
      const std::int64_t from = times[x] - paint.offset_ns;
      const std::int64_t to = times[x + 1] - paint.offset_ns;
      if (from == to) {
        ASSERT_EQ(columns[x], before);
        continue;
      }
      const ShadeTimes until = filled_by_loop(bars, to);
      const ShadeTimes since = filled_by_loop(bars, from);
      for (const int shift : {16, 8, 0}) {
        const auto channel = [&](Rgb colour) {
          return static_cast<double>(colour >> shift & 0xff);
        };
        double sum = 0;
        double all = 0;
        for (std::size_t shade = 0; shade < shade_count; ++shade) {
          const auto filled = static_cast<double>(until[shade] - since[shade]);
          all += filled;
          sum += channel(paint.shades[shade]) * filled;
        }
        const double share = all == 0 ? 0 : std::max(all / static_cast<double>(to - from), 0.375);
        const double mean = (all == 0 ? 0 : sum / all * share) + channel(0x808080) * (1 - share);
        ASSERT_NEAR(channel(columns[x]), mean, 0.6);
      }
      before = columns[x];
    }
  }
}

// Each column that bars fill by less than half shows the first bar of no length in it,
// whatever the zoom; the others look as if there was none.
TEST(Columns, ShowBarsOfNoLengthWhereTheyAreFree) {
  Random random(6);
  int shown = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Bar> bars = random_bars(random, 300);
    if (round % 4 == 0) {  // nothing else
      for (Bar& bar : bars) bar.end_ns = bar.start_ns;
    }
    std::vector<Bar> long_bars = bars;
    std::erase_if(long_bars, [](const Bar& bar) { return bar.start_ns == bar.end_ns; });
    RowPaint paint;
    for (Rgb& shade : paint.shades) shade = static_cast<Rgb>(random() & 0xffffff);
    paint.offset_ns = below(random, 1'000) - 500;
    const int width = 1 + static_cast<int>(below(random, 60));
    const std::int64_t first = bars.front().start_ns + paint.offset_ns + below(random, 4'000) - 500;
    const std::int64_t length =
        std::max<std::int64_t>(std::int64_t{1} << below(random, 15), least_range_ns);
    const auto times = column_times({{first, first + length}, 0, width});
    std::vector<Rgb> columns(static_cast<std::size_t>(width), 0x808080);
    std::vector<Rgb> without = columns;
    paint_row(bar_row(bars), paint, times, columns);
    paint_row(bar_row(long_bars), paint, times, without);
    for (std::size_t x = 0; x < columns.size(); ++x) {
      const std::int64_t from = times[x] - paint.offset_ns;
      const std::int64_t to = times[x + 1] - paint.offset_ns;
      const ShadeTimes until = filled_by_loop(bars, to);
      const ShadeTimes since = filled_by_loop(bars, from);
      const std::int64_t filled = std::accumulate(until.begin(), until.end(), std::int64_t{0}) -
                                  std::accumulate(since.begin(), since.end(), std::int64_t{0});
      const auto instant = std::ranges::find_if(bars, [&](const Bar& bar) {
        return bar.start_ns == bar.end_ns && bar.start_ns >= from && bar.start_ns < to &&
               !is_bubble(bar.shade);
      });
      const bool shows = instant != bars.end() && 2 * filled < to - from;
      ASSERT_EQ(columns[x], shows ? paint.shades[instant->shade] : without[x]);
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

}  // namespace
}  // namespace pipesim::gui
