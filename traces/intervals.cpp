#include "traces/intervals.h"

#include <algorithm>
#include <cstddef>

namespace pipesim {

std::vector<Interval> united(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::start_ns);
  std::vector<Interval> whole;
  for (const Interval& one : intervals) {
    if (!whole.empty() && one.start_ns <= whole.back().end_ns) {
      whole.back().end_ns = std::max(whole.back().end_ns, one.end_ns);
    } else {
      whole.push_back(one);
    }
  }
  return whole;
}

std::int64_t length_of(const std::vector<Interval>& intervals) {
  std::int64_t sum = 0;
  for (const Interval& one : intervals) sum += one.end_ns - one.start_ns;
  return sum;
}

std::int64_t common_of(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::int64_t sum = 0;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    sum += std::max<std::int64_t>(
        std::min(a[i].end_ns, b[k].end_ns) - std::max(a[i].start_ns, b[k].start_ns), 0);
    a[i].end_ns < b[k].end_ns ? ++i : ++k;
  }
  return sum;
}

}  // namespace pipesim
