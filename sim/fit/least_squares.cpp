#include "sim/fit/least_squares.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipesim {
namespace {

constexpr double huber_bound = 1.345;
constexpr double cauchy_bound = 2.385;
constexpr double mean_of_median = 1.4826;  // standard deviation by median absolute value, if normal
constexpr double step_length = 0.01;
// A step no longer than this ends a descent; descents before the last only provide its start.
constexpr double small_step = 1e-4;
constexpr double first_small_step = 3e-3;
constexpr int max_steps = 40;
constexpr int max_halvings = 6;

enum class Robust { no, huber, cauchy };

// L L' = a, which is symmetric and positive definite.
Matrix cholesky(const Matrix& a) {
  Matrix lower(a.size(), Point(a.size(), 0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
      lower[i][j] = i == j ? std::sqrt(sum) : sum / lower[j][j];
    }
  }
  return lower;
}

Point solve_by(const Matrix& lower, Point right) {
  const std::size_t n = right.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) right[i] -= lower[i][k] * right[k];
    right[i] /= lower[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) right[i] -= lower[k][i] * right[k];
    right[i] /= lower[i][i];
  }
  return right;
}

double median_of(Point values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// As the spread of a normal distribution with that median.
double median_size(const Point& residuals, const std::vector<bool>& used) {
  Point sizes;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) sizes.push_back(std::abs(residuals[i]));
  }
  return sizes.empty() ? 0 : mean_of_median * median_of(std::move(sizes));
}

// One solve(), step by step.
class Descent {
 public:
  Descent(const LeastSquares& problem, const std::vector<bool>& free, const std::vector<bool>& used,
          Point start)
      : problem_(problem), free_(free), used_(used) {
    solution_.at = std::move(start);
    solution_.weights.assign(problem.measured.size(), 1);
    solution_.noise = problem.noise;
    move_to(solution_.at);
  }

  Solution run() {
    for (const Robust robust : {Robust::no, Robust::huber, Robust::cauchy}) {
      for (int step = 0; step < max_steps; ++step) {
        weigh(robust);
        if (!take_step(robust == Robust::cauchy ? small_step : first_small_step)) break;
      }
    }
    solution_.gradients = gradients_at(problem_, solution_.at, problem_.measured.size(), free_);
    return std::move(solution_);
  }

 private:
  Point residuals_at(const Point& at) const {
    const Point& predicted = problem_.predict(at);
    Point residuals(predicted.size());
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      residuals[i] = problem_.measured[i] - predicted[i];
    }
    return residuals;
  }

  void move_to(Point at) {
    solution_.residuals = residuals_at(at);
    solution_.at = std::move(at);
  }

  void weigh(Robust robust) {
    if (robust == Robust::no) return;
    const double usual = std::max(problem_.noise, median_size(solution_.residuals, used_));
    for (std::size_t i = 0; i < used_.size(); ++i) {
      const double far = std::abs(solution_.residuals[i]) / usual;
      solution_.weights[i] = robust == Robust::huber
                                 ? (far <= huber_bound ? 1 : huber_bound / far)
                                 : 1 / (1 + (far / cauchy_bound) * (far / cauchy_bound));
    }
  }

  double loss(const Point& at, const Point& residuals) const {
    double sum = 0;
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      if (!used_[i]) continue;
      const double far = residuals[i] / solution_.noise;
      sum += solution_.weights[i] * far * far;
    }
    for (std::size_t j = 0; j < at.size(); ++j) {
      const double far = at[j] / problem_.unknowns[j].spread;
      sum += far * far;
    }
    return sum;
  }

  // Half of the negative gradient of the loss.
  Point downhill(const Matrix& gradients) const {
    Point down(free_.size(), 0);
    const double scale = 1 / (solution_.noise * solution_.noise);
    for (std::size_t j = 0; j < free_.size(); ++j) {
      const double spread = problem_.unknowns[j].spread;
      down[j] = -solution_.at[j] / (spread * spread);
      for (std::size_t i = 0; i < used_.size(); ++i) {
        if (!used_[i]) continue;
        down[j] += scale * solution_.weights[i] * gradients[i][j] * solution_.residuals[i];
      }
    }
    return down;
  }

  // Returns whether there was one.
  bool take_step(double shortest) {
    const Matrix gradients = gradients_at(problem_, solution_.at, problem_.measured.size(), free_);
    const Point down = downhill(gradients);
    std::vector<std::size_t> moved;  // all except those at a bound
    for (std::size_t j = 0; j < free_.size(); ++j) {
      const Unknown& one = problem_.unknowns[j];
      const bool held = (solution_.at[j] <= one.least && down[j] < 0) ||
                        (solution_.at[j] >= one.most && down[j] > 0);
      if (free_[j] && !held) moved.push_back(j);
    }
    if (moved.empty()) return false;
    Matrix curvature(moved.size(), Point(moved.size(), 0));
    Point right(moved.size());
    const double scale = 1 / (solution_.noise * solution_.noise);
    for (std::size_t a = 0; a < moved.size(); ++a) {
      const double spread = problem_.unknowns[moved[a]].spread;
      right[a] = down[moved[a]];
      curvature[a][a] = 1 / (spread * spread);
      for (std::size_t b = 0; b < moved.size(); ++b) {
        for (std::size_t i = 0; i < used_.size(); ++i) {
          if (!used_[i]) continue;
          curvature[a][b] +=
              scale * solution_.weights[i] * gradients[i][moved[a]] * gradients[i][moved[b]];
        }
      }
    }
    const Point step = solve_by(cholesky(curvature), right);
    const double before = loss(solution_.at, solution_.residuals);
    double part = 1;
    for (int halving = 0; halving <= max_halvings; ++halving, part /= 2) {
      Point at = solution_.at;
      double length = 0;
      for (std::size_t a = 0; a < moved.size(); ++a) {
        const Unknown& one = problem_.unknowns[moved[a]];
        at[moved[a]] = std::clamp(at[moved[a]] + part * step[a], one.least, one.most);
        length = std::max(length, std::abs(at[moved[a]] - solution_.at[moved[a]]));
      }
      if (length < shortest) return false;
      if (loss(at, residuals_at(at)) < before) {
        move_to(std::move(at));
        return true;
      }
    }
    return false;
  }

  const LeastSquares& problem_;
  const std::vector<bool>& free_;
  const std::vector<bool>& used_;
  Solution solution_;
};

}  // namespace

Matrix gradients_at(const LeastSquares& problem, const Point& at, std::size_t count,
                    const std::vector<bool>& wanted) {
  Matrix gradients(count, Point(at.size(), 0));
  for (std::size_t j = 0; j < at.size(); ++j) {
    if (!wanted[j]) continue;
    const double high = std::min(at[j] + step_length, problem.unknowns[j].most);
    const double low = std::max(at[j] - step_length, problem.unknowns[j].least);
    if (high <= low) continue;
    Point near = at;
    near[j] = high;
    const Point above = problem.predict(near);
    near[j] = low;
    const Point& below = problem.predict(near);
    for (std::size_t i = 0; i < count; ++i) {
      gradients[i][j] = (above[i] - below[i]) / (high - low);
    }
  }
  return gradients;
}

Solution solve(const LeastSquares& problem, const std::vector<bool>& free,
               const std::vector<bool>& used, Point start) {
  return Descent(problem, free, used, std::move(start)).run();
}

Matrix covariance(const LeastSquares& problem, const Solution& solution,
                  const std::vector<bool>& free, const std::vector<bool>& used) {
  const std::size_t count = free.size();
  std::vector<std::size_t> open;
  for (std::size_t j = 0; j < count; ++j) {
    if (free[j]) open.push_back(j);
  }
  Matrix known(open.size(), Point(open.size(), 0));
  const double scale = 1 / (solution.noise * solution.noise);
  for (std::size_t a = 0; a < open.size(); ++a) {
    const double spread = problem.unknowns[open[a]].spread;
    known[a][a] = 1 / (spread * spread);
    for (std::size_t b = 0; b < open.size(); ++b) {
      for (std::size_t i = 0; i < used.size(); ++i) {
        if (!used[i]) continue;
        known[a][b] += scale * solution.weights[i] * solution.gradients[i][open[a]] *
                       solution.gradients[i][open[b]];
      }
    }
  }
  const Matrix lower = cholesky(known);
  Matrix result(count, Point(count, 0));
  for (std::size_t b = 0; b < open.size(); ++b) {
    Point unit(open.size(), 0);
    unit[b] = 1;
    const Point column = solve_by(lower, std::move(unit));
    for (std::size_t a = 0; a < open.size(); ++a) result[open[a]][open[b]] = column[a];
  }
  return result;
}

double shown_noise(const LeastSquares& problem, const Solution& solution,
                   const std::vector<bool>& free, const std::vector<bool>& used) {
  const Matrix left = covariance(problem, solution, free, used);
  double fitted = 0;  // unknowns; partly determined ones count in part
  for (std::size_t j = 0; j < free.size(); ++j) {
    const double spread = problem.unknowns[j].spread;
    if (free[j]) fitted += 1 - left[j][j] / (spread * spread);
  }
  const auto count = static_cast<double>(std::ranges::count(used, true));
  return median_size(solution.residuals, used) * std::sqrt(count / std::max(1.0, count - fitted));
}

double variance_of(const Point& gradient, const Matrix& covariance) {
  double sum = 0;
  for (std::size_t a = 0; a < gradient.size(); ++a) {
    for (std::size_t b = 0; b < gradient.size(); ++b) {
      sum += gradient[a] * covariance[a][b] * gradient[b];
    }
  }
  return sum;
}

}  // namespace pipesim
