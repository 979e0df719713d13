// A step function of time, such as a rank's memory, with the
// maximum and minimum over any interval in O(log n).
//
// Plain values; const use is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "traces/base/large_vector.h"

namespace pipesim::gui {

struct CurvePoint {
  std::int64_t time_ns = 0;
  std::int64_t value = 0;  // from then on

  bool operator==(const CurvePoint&) const = default;
};

class Curve {
 public:
  void reserve(std::size_t points) { points_.reserve(points); }
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
  // Over the values in [from, to), including the one at `from`; nothing
  // where the curve starts later.
  std::optional<Extremes> extremes(std::int64_t from_ns, std::int64_t to_ns) const;
  Extremes extremes() const { return all_; }  // 0 where empty
  // The first point with the greatest value; not of an empty curve.
  const CurvePoint& peak() const { return points_[peak_]; }

  // The same of stretches that follow each other, in less time.
  class Sweep {
   public:
    Sweep(const Curve& curve, std::int64_t from_ns);
    // From where the last stretch ended; `to_ns` is no earlier.
    std::optional<Extremes> until(std::int64_t to_ns);

   private:
    const Curve* curve_;
    std::int64_t from_ns_;
    std::size_t next_;  // the first point at from_ns_ or later
  };

 private:
  static constexpr std::size_t block = 16;

  // The first point from `index` on at `time_ns` or later.
  std::size_t first_from(std::size_t index, std::int64_t time_ns) const;
  // Over the points [first, last), at least one.
  Extremes extremes_of(std::size_t first, std::size_t last) const;

  LargeVector<CurvePoint> points_;
  // Over each `block` points; over each `block` of those; and so on.
  std::vector<LargeVector<Extremes>> levels_;
  Extremes all_;
  std::size_t peak_ = 0;
};

}  // namespace pipesim::gui
