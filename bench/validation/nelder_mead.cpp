#include "bench/validation/nelder_mead.h"

#include <algorithm>
#include <cstddef>

namespace pipesim::validation {
namespace {

using Point = std::vector<double>;
using Function = std::function<double(const Point&)>;

struct Corner {
  Point at;
  double value;
};

class Simplex {
 public:
  Simplex(const Function& function, const Point& start, double step) : function_(function) {
    add(start);
    for (std::size_t i = 0; i < start.size(); ++i) {
      Point moved = start;
      moved[i] += step;
      add(moved);
    }
    sort();
  }

  void run(double tolerance, int most) {
    while (corners_.back().value - corners_.front().value > tolerance && evaluations_ < most) {
      move();
      sort();
    }
  }

  const Corner& best() const { return corners_.front(); }
  int evaluations() const { return evaluations_; }

 private:
  Corner corner(Point at) {
    ++evaluations_;
    const double value = function_(at);
    return {std::move(at), value};
  }
  void add(const Point& at) { corners_.push_back(corner(at)); }
  void sort() {
    std::stable_sort(corners_.begin(), corners_.end(),
                     [](const Corner& a, const Corner& b) { return a.value < b.value; });
  }

  // From the middle of all corners but the worst, so many times as far as that.
  Corner along(double factor) {
    const Point& worst = corners_.back().at;
    const double others = static_cast<double>(corners_.size() - 1);
    Point at(worst.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      double middle = 0;
      for (std::size_t c = 0; c + 1 < corners_.size(); ++c) middle += corners_[c].at[i] / others;
      at[i] = middle + factor * (worst[i] - middle);
    }
    return corner(std::move(at));
  }

  void move() {
    Corner reflected = along(-1);
    if (reflected.value < best().value) {
      Corner expanded = along(-2);
      corners_.back() = std::move(expanded.value < reflected.value ? expanded : reflected);
      return;
    }
    if (reflected.value < corners_[corners_.size() - 2].value) {
      corners_.back() = std::move(reflected);
      return;
    }
    Corner contracted = along(reflected.value < corners_.back().value ? -0.5 : 0.5);
    if (contracted.value < std::min(reflected.value, corners_.back().value)) {
      corners_.back() = std::move(contracted);
      return;
    }
    for (std::size_t c = 1; c < corners_.size(); ++c) {
      Point at = corners_[c].at;
      for (std::size_t i = 0; i < at.size(); ++i) at[i] = (at[i] + best().at[i]) / 2;
      corners_[c] = corner(std::move(at));
    }
  }

  const Function& function_;
  std::vector<Corner> corners_;
  int evaluations_ = 0;
};

}  // namespace

std::vector<double> minimise(const Function& function, std::vector<double> start, double step,
                             double tolerance, int most) {
  double before = function(start);
  while (most > 0) {
    Simplex simplex(function, start, step);
    simplex.run(tolerance, most);
    most -= simplex.evaluations();
    start = simplex.best().at;
    if (before - simplex.best().value <= tolerance) break;
    before = simplex.best().value;
  }
  return start;
}

}  // namespace pipesim::validation
