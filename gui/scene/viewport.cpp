#include "gui/scene/viewport.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pipesim::gui {
namespace {

// Products of a time and a width, and differences of any two times.
__extension__ using Wide = __int128;

constexpr int beyond = 1'000'000;  // pixels
constexpr std::int64_t longest_range_ns = std::int64_t{1} << 62;

Wide floor_div(Wide value, Wide by) { return value / by - (value % by < 0 ? 1 : 0); }

std::int64_t to_int64(Wide value) {
  constexpr Wide least = std::numeric_limits<std::int64_t>::min();
  constexpr Wide most = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::clamp(value, least, most));
}

Wide length_of(const TimeRange& range) {
  return std::max<Wide>(Wide{range.to_ns} - range.from_ns, 1);
}

TimeRange range_from(Wide from, Wide length) {
  return {to_int64(from), to_int64(Wide{to_int64(from)} + length)};
}

}  // namespace

double Viewport::ns_per_pixel() const {
  return static_cast<double>(length_of(range)) / std::max(width, 1);
}

int Viewport::x_of(std::int64_t time_ns) const {
  const Wide pixel =
      floor_div((Wide{time_ns} - range.from_ns) * std::max(width, 1), length_of(range));
  return x + static_cast<int>(std::clamp<Wide>(pixel, -beyond, Wide{width} + beyond));
}

std::int64_t Viewport::time_of(int pixel) const {
  const Wide product = (Wide{pixel} - x) * length_of(range);
  return to_int64(range.from_ns - floor_div(-product, std::max(width, 1)));
}

TimeRange zoomed(const TimeRange& range, std::int64_t about_ns, double factor) {
  const auto length = static_cast<double>(length_of(range));
  const double wanted = std::clamp(std::round(length * factor), static_cast<double>(min_range_ns),
                                   static_cast<double>(longest_range_ns));
  const auto before = static_cast<double>(Wide{about_ns} - range.from_ns);
  const double kept = std::round(before * (wanted / length));
  if (std::abs(kept) > static_cast<double>(longest_range_ns)) return range;
  return range_from(Wide{about_ns} - static_cast<Wide>(kept), static_cast<Wide>(wanted));
}

TimeRange panned(const TimeRange& range, std::int64_t by_ns) {
  constexpr Wide most = std::numeric_limits<std::int64_t>::max();
  constexpr Wide least = std::numeric_limits<std::int64_t>::min();
  const Wide by = std::clamp<Wide>(by_ns, least - range.from_ns, most - range.to_ns);
  return {to_int64(range.from_ns + by), to_int64(range.to_ns + by)};
}

TimeRange kept_within(const TimeRange& range, const TimeRange& extent) {
  const Wide margin = std::max<Wide>(length_of(extent) / 20, min_range_ns);
  const Wide low = Wide{extent.from_ns} - margin;
  const Wide high = Wide{extent.to_ns} + margin;
  const Wide length = std::clamp<Wide>(length_of(range), min_range_ns, high - low);
  return range_from(std::clamp<Wide>(range.from_ns, low, high - length), length);
}

Ticks ticks(const Viewport& viewport, int least_pixels) {
  const Wide least =
      -floor_div(-length_of(viewport.range) * least_pixels, std::max(viewport.width, 1));
  Wide step = 1;
  constexpr Wide most = 5'000'000'000'000'000'000;  // the next would not be an int64
  for (int i = 0; step < least && step < most; ++i) {
    step = i % 3 == 1 ? step / 2 * 5 : step * 2;  // 1 2 5 10
  }
  const std::int64_t step_ns = to_int64(step);
  const Wide first = -floor_div(-Wide{viewport.range.from_ns}, step_ns) * step_ns;
  return {to_int64(first), step_ns};
}

}  // namespace pipesim::gui
