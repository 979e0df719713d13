// Intervals of time, and the union and intersection of lists of them. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace pipesim {

struct Interval {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

// The same time, sorted, none overlapping another.
std::vector<Interval> united(std::vector<Interval> intervals);

// For united lists: the length of one, and of the intersection of two.
std::int64_t length_of(const std::vector<Interval>& intervals);
std::int64_t common_of(const std::vector<Interval>& a, const std::vector<Interval>& b);

}  // namespace pipesim
