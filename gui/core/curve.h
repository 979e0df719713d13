// A quantity over time as steps, such as the bytes that a rank holds, with the
// greatest and least of any stretch of time in O(log n).
//
// Plain values; const use is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "traces/base/large_vector.h"

namespace pipesim::gui {

struct CurvePoint {
  std::int64_t time_ns = 0;
  std::int64_t value = 0;  // from then on

  bool operator==(const CurvePoint&) const = default;
};

class Curve {
 public:
  // In order of time; of points at one instant the last counts.
  void add(CurvePoint point);
  // After the last point.
  void finish();

  bool empty() const { return points_.empty(); }
  std::size_t size() const { return points_.size(); }
  const CurvePoint& operator[](std::size_t index) const { return points_[index]; }

  // Nothing before the first point.
  std::optional<std::int64_t> value_at(std::int64_t time_ns) const;
  struct Extremes {
    std::int64_t least = 0;
    std::int64_t most = 0;
  };
  // Of the values in [from, to), the one that holds at `from` included; nothing
  // where the curve starts later.
  std::optional<Extremes> extremes(std::int64_t from_ns, std::int64_t to_ns) const;
  Extremes extremes() const { return all_; }  // 0 where empty
  // The first point with the greatest value.
  const CurvePoint& peak() const { return points_[peak_]; }

 private:
  static constexpr std::size_t block = 64;

  LargeVector<CurvePoint> points_;
  LargeVector<Extremes> blocks_;
  Extremes all_;
  std::size_t peak_ = 0;
};

}  // namespace pipesim::gui
