// Time from left to right in columns of characters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipesim {

class TimeScale {
 public:
  // From one instant to a later one.
  TimeScale(std::int64_t begin_ns, std::int64_t end_ns, int columns);

  int columns() const { return columns_; }
  std::int64_t begin_ns() const { return begin_; }
  std::int64_t end_ns() const { return end_; }
  double exact(std::int64_t ns) const;
  int column(std::int64_t ns) const;  // the nearest border between two

 private:
  std::int64_t begin_, end_;
  int columns_;
};

struct TimeTick {
  std::int64_t ns = 0;
  std::string label;
};
// Round times in one unit, at least `apart` columns apart.
std::vector<TimeTick> time_ticks(const TimeScale& scale, int apart);

// A line with round times at their places, after a margin.
std::string time_axis(const TimeScale& scale, std::size_t margin);

}  // namespace pipesim
