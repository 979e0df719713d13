// Maps times to pixels. Knows no widget and no data.
#pragma once

#include <cstdint>

namespace pipesim::gui {

struct TimeRange {
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;

  std::int64_t length_ns() const { return to_ns - from_ns; }
  bool contains(std::int64_t time_ns) const { return time_ns >= from_ns && time_ns < to_ns; }
  bool operator==(const TimeRange&) const = default;
};

// No range that is shown is shorter.
inline constexpr std::int64_t min_range_ns = 20;

// A range of time over pixels x to x + width.
struct Viewport {
  TimeRange range;
  int x = 0;
  int width = 1;

  double ns_per_pixel() const;
  // The pixel in which an instant lies, rounded down; far outside it is cut off
  // at a million pixels beyond the sides.
  int x_of(std::int64_t time_ns) const;
  // The first instant of a pixel: x_of(time_of(x)) == x.
  std::int64_t time_of(int pixel) const;
};

// `factor` < 1 shows less; the instant `about_ns` stays where it is.
TimeRange zoomed(const TimeRange& range, std::int64_t about_ns, double factor);
TimeRange panned(const TimeRange& range, std::int64_t by_ns);
// Moved and, if need be, shortened so that it is within `extent` and a margin.
TimeRange kept_within(const TimeRange& range, const TimeRange& extent);

// Where a time axis has ticks: 1, 2 or 5 times a power of ten, at least `least_pixels`
// apart.
struct Ticks {
  std::int64_t first_ns = 0;
  std::int64_t step_ns = 1;
};
Ticks ticks(const Viewport& viewport, int least_pixels);

}  // namespace pipesim::gui
