// Few unknowns from few measurements: least squares with a prior for each unknown and little weight
// for outliers. Gauss-Newton steps, halved while they don't improve; gradients by central
// differences; weights first by Huber, whose solution does not depend on the start, then by Cauchy,
// which ignores outliers. Everything is deterministic: the same problem has the same solution to
// the bit. Pure; any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace pipesim {

using Point = std::vector<double>;
using Matrix = std::vector<Point>;  // by rows

// Expected to be 0, give or take `spread`; always within [least, most], which includes 0.
struct Unknown {
  double spread = 1;
  double least = -1;
  double most = 1;
};

struct LeastSquares {
  std::vector<Unknown> unknowns;
  Point measured;
  double noise = 1;  // of a measurement
  // Predicts every measurement, at a point.
  std::function<const Point&(const Point&)> predict;
};

struct Solution {
  Point at;
  Point residuals;   // measured minus predicted
  Point weights;     // 0 to 1; little for an outlier
  Matrix gradients;  // of each measurement's prediction, with respect to each free unknown; else 0
  double noise = 1;  // as assumed
};

// Unknowns that are not free stay at `start`. Measurements with a false in `used` don't count.
Solution solve(const LeastSquares& problem, const std::vector<bool>& free,
               const std::vector<bool>& used, Point start);

// The noise that the measurements show: the median absolute residual, corrected for the number of
// fitted unknowns, scaled as for a normal distribution.
double shown_noise(const LeastSquares& problem, const Solution& solution,
                   const std::vector<bool>& free, const std::vector<bool>& used);

// The covariance of the unknowns given the measurements, those that are not free fixed: their rows
// and columns are 0.
Matrix covariance(const LeastSquares& problem, const Solution& solution,
                  const std::vector<bool>& free, const std::vector<bool>& used);

// g' C g.
double variance_of(const Point& gradient, const Matrix& covariance);

// Gradients at a point, of each of `count` predictions, with respect to each wanted unknown; else
// 0. Stays within the unknowns' ranges.
Matrix gradients_at(const LeastSquares& problem, const Point& at, std::size_t count,
                    const std::vector<bool>& wanted);

}  // namespace pipesim
