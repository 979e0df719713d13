#include "gui/scene/curve.h"

#include <algorithm>
#include <cassert>

namespace pipesim::gui {
namespace {

Curve::Extremes united(const Curve::Extremes& one, const Curve::Extremes& other) {
  return {std::min(one.least, other.least), std::max(one.most, other.most)};
}

}  // namespace

void Curve::add(CurvePoint point) {
  assert(points_.empty() || point.time_ns >= points_.back().time_ns);
  if (!points_.empty() && points_.back().time_ns == point.time_ns) {
    points_.back() = point;
  } else {
    points_.push_back(point);
  }
}

void Curve::finish() {
  levels_.clear();
  peak_ = 0;
  all_ = {};
  if (points_.empty()) return;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (points_[i].value > points_[peak_].value) peak_ = i;
  }
  std::size_t below = points_.size();
  while (below > block) {
    LargeVector<Extremes> level;
    level.reserve((below + block - 1) / block);
    for (std::size_t first = 0; first < below; first += block) {
      const auto at = [&](std::size_t i) {
        return levels_.empty() ? Extremes{points_[i].value, points_[i].value} : levels_.back()[i];
      };
      Extremes extremes = at(first);
      for (std::size_t i = first + 1; i < std::min(first + block, below); ++i) {
        extremes = united(extremes, at(i));
      }
      level.push_back(extremes);
    }
    below = level.size();
    levels_.push_back(std::move(level));
  }
  all_ = extremes_of(0, points_.size());
}

std::size_t Curve::first_from(std::size_t index, std::int64_t time_ns) const {
  std::size_t step = 1;
  while (index + step < points_.size() && points_[index + step].time_ns < time_ns) step *= 2;
  const auto from =
      points_.begin() + static_cast<std::ptrdiff_t>(std::min(index + step / 2, points_.size()));
  const auto to =
      points_.begin() + static_cast<std::ptrdiff_t>(std::min(index + step + 1, points_.size()));
  const auto found =
      std::lower_bound(from, to, time_ns,
                       [](const CurvePoint& point, std::int64_t at) { return point.time_ns < at; });
  return static_cast<std::size_t>(found - points_.begin());
}

Curve::Extremes Curve::extremes_of(std::size_t first, std::size_t last) const {
  Extremes extremes{points_[first].value, points_[first].value};
  const auto take = [&](std::size_t level, std::size_t i) {
    extremes = united(extremes, level == 0 ? Extremes{points_[i].value, points_[i].value}
                                           : levels_[level - 1][i]);
  };
  // The ends of the stretch at each level, and its middle a level above.
  for (std::size_t level = 0; first < last; ++level) {
    const bool top = level == levels_.size();
    while (first < last && (top || first % block != 0)) take(level, first++);
    while (first < last && last % block != 0) take(level, --last);
    first /= block;
    last /= block;
  }
  return extremes;
}

std::optional<std::int64_t> Curve::value_at(std::int64_t time_ns) const {
  const auto found = std::ranges::upper_bound(points_, time_ns, {}, &CurvePoint::time_ns);
  if (found == points_.begin()) return {};
  return std::prev(found)->value;
}

std::optional<Curve::Extremes> Curve::extremes(std::int64_t from_ns, std::int64_t to_ns) const {
  return Sweep(*this, from_ns).until(to_ns);
}

Curve::Sweep::Sweep(const Curve& curve, std::int64_t from_ns)
    : curve_(&curve), from_ns_(from_ns), next_(curve.first_from(0, from_ns)) {}

std::optional<Curve::Extremes> Curve::Sweep::until(std::int64_t to_ns) {
  const auto& points = curve_->points_;
  std::size_t first = next_;
  const bool starts_here = first < points.size() && points[first].time_ns == from_ns_;
  if (!starts_here && first > 0) --first;  // holds at from_ns_
  const std::int64_t from_ns = std::exchange(from_ns_, to_ns);
  next_ = curve_->first_from(next_, to_ns);
  std::size_t last = next_;
  if (first < points.size() && points[first].time_ns <= from_ns) last = std::max(last, first + 1);
  if (first >= last) return {};
  return curve_->extremes_of(first, last);
}

}  // namespace pipesim::gui
