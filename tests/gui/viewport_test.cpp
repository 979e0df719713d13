// Which time is at which pixel, on random ranges as large as int64 times get.
#include "gui/scene/viewport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace pipesim::gui {
namespace {

__extension__ using Wide = __int128;
using Random = std::mt19937_64;

constexpr std::int64_t most = std::int64_t{1} << 62;

// Of any size, small ones as often as large ones.
std::int64_t any_time(Random& random) {
  const auto value = static_cast<std::int64_t>(random() >> (2 + random() % 62));
  return random() % 2 == 0 ? value : -value;
}

Viewport any_viewport(Random& random) {
  const std::int64_t one = any_time(random);
  const std::int64_t other = any_time(random);
  TimeRange range{std::min(one, other), std::max(one, other)};
  if (range.length_ns() < min_range_ns) range.to_ns = range.from_ns + min_range_ns;
  return {range, static_cast<int>(random() % 300), 1 + static_cast<int>(random() % 4'000)};
}

TEST(Viewport, PutsTheFirstInstantOfEachPixelIntoIt) {
  Random random(1);
  for (int round = 0; round < 20'000; ++round) {
    const Viewport viewport = any_viewport(random);
    const int pixel =
        viewport.x + static_cast<int>(random() % static_cast<unsigned>(viewport.width));
    const std::int64_t time = viewport.time_of(pixel);
    if (viewport.range.length_ns() >= viewport.width) {
      ASSERT_EQ(viewport.x_of(time), pixel);
    } else {  // some pixels hold no instant: the next that does
      ASSERT_GE(viewport.x_of(time), pixel);
    }
    ASSERT_LT(viewport.x_of(time - 1), pixel);
    ASSERT_LE(time, viewport.time_of(pixel + 1));
  }
}

TEST(Viewport, RoundsDownExactly) {
  Random random(2);
  for (int round = 0; round < 20'000; ++round) {
    const Viewport viewport = any_viewport(random);
    const Wide length = Wide{viewport.range.to_ns} - viewport.range.from_ns;
    const std::int64_t time = any_time(random);
    const Wide pixel = viewport.x_of(time) - viewport.x;
    const Wide moved = (Wide{time} - viewport.range.from_ns) * viewport.width;
    if (pixel == -1'000'000 || pixel == viewport.width + 1'000'000) continue;  // cut off
    ASSERT_TRUE(pixel * length <= moved && moved < (pixel + 1) * length);
  }
}

TEST(Viewport, CutsOffWhatIsFarOutside) {
  const Viewport viewport{{1'000, 1'020}, 100, 500};
  EXPECT_EQ(viewport.x_of(-most), 100 - 1'000'000);
  EXPECT_EQ(viewport.x_of(most), 100 + 500 + 1'000'000);
  EXPECT_EQ(viewport.x_of(1'000), 100);
  EXPECT_EQ(viewport.x_of(1'020), 600);
  EXPECT_EQ(viewport.time_of(100), 1'000);
  EXPECT_EQ(viewport.time_of(600), 1'020);
  EXPECT_DOUBLE_EQ(viewport.ns_per_pixel(), 0.04);
}

TEST(TimeRange, ZoomKeepsAnInstantWhereItIs) {
  Random random(3);
  int zooms = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Viewport viewport = any_viewport(random);
    const TimeRange& range = viewport.range;
    const std::int64_t about = viewport.time_of(viewport.x + viewport.width / 3);
    const double factor = std::exp2(static_cast<double>(random() % 200) / 50 - 2);
    const TimeRange to = zoomed(range, about, factor);
    ASSERT_GE(to.length_ns(), min_range_ns);
    ASSERT_LE(to.length_ns(), most);
    const auto length = static_cast<double>(range.length_ns());
    const double wanted = std::clamp(length * factor, 20.0, static_cast<double>(most));
    ASSERT_NEAR(static_cast<double>(to.length_ns()) / wanted, 1, 0.06);
    if (std::abs(about) > most / 4 || wanted > most / 4.0) continue;
    const double before = static_cast<double>(about - range.from_ns) / length;
    const double after =
        static_cast<double>(about - to.from_ns) / static_cast<double>(to.length_ns());
    ASSERT_NEAR(before, after, 0.05);  // a nanosecond of the least range
    ++zooms;
  }
  EXPECT_GT(zooms, 10'000);
}

TEST(TimeRange, PansByWhatIsAsked) {
  EXPECT_EQ(panned({10, 30}, 5), (TimeRange{15, 35}));
  EXPECT_EQ(panned({10, 30}, -50), (TimeRange{-40, -20}));
  const TimeRange far = panned({most, most + 100}, most);
  EXPECT_EQ(far.length_ns(), 100);
  EXPECT_GE(far.from_ns, most);
}

TEST(TimeRange, IsKeptWithinTheExtentAndAMargin) {
  const TimeRange extent{1'000, 3'000};  // margins of 100
  EXPECT_EQ(kept_within({1'500, 1'700}, extent), (TimeRange{1'500, 1'700}));
  EXPECT_EQ(kept_within({-500, -300}, extent), (TimeRange{900, 1'100}));
  EXPECT_EQ(kept_within({3'050, 3'250}, extent), (TimeRange{2'900, 3'100}));
  EXPECT_EQ(kept_within({-10'000, 90'000}, extent), (TimeRange{900, 3'100}));
  EXPECT_EQ(kept_within({1'500, 1'501}, extent).length_ns(), min_range_ns);
  Random random(4);
  for (int round = 0; round < 20'000; ++round) {
    const TimeRange range = any_viewport(random).range;
    const TimeRange kept = kept_within(range, any_viewport(random).range);
    ASSERT_GE(kept.length_ns(), min_range_ns);
    ASSERT_LE(kept.length_ns(), range.length_ns());
  }
}

TEST(Ticks, AreOneTwoOrFiveTimesAPowerOfTen) {
  Random random(5);
  for (int round = 0; round < 20'000; ++round) {
    const Viewport viewport = any_viewport(random);
    const int least = 10 + static_cast<int>(random() % 200);
    const Ticks made = ticks(viewport, least);
    std::int64_t digit = made.step_ns;
    while (digit % 10 == 0) digit /= 10;
    ASSERT_TRUE(digit == 1 || digit == 2 || digit == 5) << made.step_ns;
    const double pixels = static_cast<double>(made.step_ns) / viewport.ns_per_pixel();
    if (made.step_ns < 5'000'000'000'000'000'000) {
      ASSERT_GE(pixels, least * 0.999999);
    }
    if (made.step_ns > 1) {
      ASSERT_LT(pixels, least * 2.500001);  // no smaller one would do
    }
    ASSERT_EQ(made.first_ns % made.step_ns, 0);
    ASSERT_GE(made.first_ns, viewport.range.from_ns);
    ASSERT_LT(Wide{made.first_ns} - made.step_ns, viewport.range.from_ns);
  }
}

}  // namespace
}  // namespace pipesim::gui
