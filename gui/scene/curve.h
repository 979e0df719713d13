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
#include "traces/base/packed_column.h"

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
  // After the last point, and once: nothing below knows of points before.
  void finish();

  bool empty() const { return times_ns_.empty(); }
  std::size_t size() const { return times_ns_.size(); }
  CurvePoint operator[](std::size_t index) const { return {times_ns_[index], values_[index]}; }

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
  CurvePoint peak() const { return (*this)[peak_]; }

  // The same of stretches that follow each other, in less time. Of those with many points the
  // ends may be a few points early: the next stretch has them.
  class Sweep {
   public:
    Sweep(const Curve& curve, std::int64_t from_ns);
    // From where the last stretch ended; `to_ns` is no earlier.
    std::optional<Extremes> until(std::int64_t to_ns);

   private:
    const Curve* curve_;
    std::int64_t from_ns_;
    std::size_t next_;  // the first point at from_ns_ or later, or less than a block before
  };

 private:
  static constexpr std::size_t block = 16;
  static constexpr std::size_t many = 3 * block;  // points of a stretch

  void keep(const CurvePoint& point);
  // Over what holds at an instant and the points [next, end), of which the first is no earlier.
  std::optional<Extremes> extremes_from(std::int64_t from_ns, std::size_t next,
                                        std::size_t end) const;
  // Over the points [first, last), at least one.
  Extremes extremes_of(std::size_t first, std::size_t last) const;

  std::optional<CurvePoint> last_;  // until the next is later
  PackedColumn times_ns_, values_;
  // Over each `block` points; over each `block` of those; and so on.
  std::vector<LargeVector<Extremes>> levels_;
  Extremes all_;
  std::size_t peak_ = 0;
};

}  // namespace pipesim::gui
