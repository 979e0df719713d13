#include "gui/scene/curve.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace pipesim::gui {
namespace {

Curve::Extremes united(const Curve::Extremes& one, const Curve::Extremes& other) {
  return {std::min(one.least, other.least), std::max(one.most, other.most)};
}

}  // namespace

void Curve::add(CurvePoint point) {
  assert(!last_ || point.time_ns >= last_->time_ns);
  if (last_ && last_->time_ns < point.time_ns) keep(*last_);
  last_ = point;
}

void Curve::keep(const CurvePoint& point) {
  if (empty() || point.value > values_[peak_]) peak_ = size();
  times_ns_.push_back(point.time_ns);
  values_.push_back(point.value);
}

void Curve::finish() {
  if (!last_) return;
  keep(*last_);
  last_.reset();
  times_ns_.shrink_to_fit();
  values_.shrink_to_fit();
  std::size_t below = size();
  while (below > block) {
    LargeVector<Extremes> level;
    level.reserve((below + block - 1) / block);
    for (std::size_t first = 0; first < below; first += block) {
      const auto at = [&](std::size_t i) {
        return levels_.empty() ? Extremes{values_[i], values_[i]} : levels_.back()[i];
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
  all_ = extremes_of(0, size());
}

Curve::Extremes Curve::extremes_of(std::size_t first, std::size_t last) const {
  Extremes extremes{values_[first], values_[first]};
  const auto take_points = [&](std::size_t from, std::size_t to) {
    values_.each(from, to, [&](std::int64_t value) {
      extremes = united(extremes, {value, value});
    });
  };
  // The ends of the stretch at each level, and its middle a level above.
  for (std::size_t level = 0; first < last; ++level) {
    const bool top = level == levels_.size();
    const std::size_t front = top ? last : std::min((first + block - 1) / block * block, last);
    const std::size_t back = top ? last : std::max(last / block * block, front);
    if (level == 0) {
      take_points(first, front);
      take_points(back, last);
    } else {
      const auto& blocks = levels_[level - 1];
      for (std::size_t i = first; i < front; ++i) extremes = united(extremes, blocks[i]);
      for (std::size_t i = back; i < last; ++i) extremes = united(extremes, blocks[i]);
    }
    first = front / block;
    last = back / block;
  }
  return extremes;
}

std::optional<std::int64_t> Curve::value_at(std::int64_t time_ns) const {
  std::size_t after = times_ns_.first_from(0, time_ns);
  if (after < size() && times_ns_[after] == time_ns) ++after;
  if (after == 0) return {};
  return values_[after - 1];
}

std::optional<Curve::Extremes> Curve::extremes(std::int64_t from_ns, std::int64_t to_ns) const {
  const std::size_t next = times_ns_.first_from(0, from_ns);
  return extremes_from(from_ns, next, times_ns_.first_from(next, to_ns));
}

std::optional<Curve::Extremes> Curve::extremes_from(std::int64_t from_ns, std::size_t next,
                                                    std::size_t end) const {
  std::size_t first = next;
  const bool starts_here = next < size() && times_ns_[next] == from_ns;
  if (!starts_here && next > 0) --first;  // holds at from_ns
  if (first < size() && times_ns_[first] <= from_ns) end = std::max(end, first + 1);
  if (first >= end) return {};
  return extremes_of(first, end);
}

Curve::Sweep::Sweep(const Curve& curve, std::int64_t from_ns)
    : curve_(&curve), from_ns_(from_ns), next_(curve.times_ns_.first_from(0, from_ns)) {}

std::optional<Curve::Extremes> Curve::Sweep::until(std::int64_t to_ns) {
  const std::size_t next = next_;
  next_ = curve_->times_ns_.first_from(next, to_ns);
  if (next_ < curve_->size() && next_ - next >= many) next_ = next_ / block * block;
  return curve_->extremes_from(std::exchange(from_ns_, to_ns), next, next_);
}

}  // namespace pipesim::gui
