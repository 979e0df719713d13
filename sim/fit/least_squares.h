// Few unknowns from few measurements: least squares with a prior for each unknown and little weight
// for what does not go with the rest.
//
// Gauss-Newton steps, halved while they don't improve; gradients by central differences; weights
// first by Huber, whose answer does not depend on where it starts, then by Cauchy, which forgets
// outliers. Everything is deterministic: the same problem has the same solution to the bit. Pure;
// any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace pipesim {

using Point = std::vector<double>;
using Matrix = std::vector<Point>;  // by rows

// Expected to be 0, give or take `spread`; never outside [least, most], which 0 is within.
struct Unknown {
  double spread = 1;
  double least = -1;
  double most = 1;
};

struct LeastSquares {
  std::vector<Unknown> unknowns;
  Point measured;
  double noise = 1;  // of a measurement
  // Of every measurement, at a point.
  std::function<const Point&(const Point&)> predict;
};

struct Solution {
  Point at;
  Point residuals;   // measured minus predicted
  Point weights;     // 0 to 1; little for an outlier
  Matrix gradients;  // of each measurement's prediction, by each unknown that is free; else 0
  double noise = 1;  // that was assumed
};

// Those that are not free stay at `start`. Measurements with a false in `used` don't count.
Solution solve(const LeastSquares& problem, const std::vector<bool>& free,
               const std::vector<bool>& used, Point start);

// What the measurements show of their noise: the median size of residuals, for the unknowns that
// were fitted to them, as of a normal distribution.
double shown_noise(const LeastSquares& problem, const Solution& solution,
                   const std::vector<bool>& free, const std::vector<bool>& used);

// What measurements leave open of the unknowns, those that are not free at their priors: row and
// column of such a one are 0.
Matrix covariance(const LeastSquares& problem, const Solution& solution,
                  const std::vector<bool>& free, const std::vector<bool>& used);

// g' C g.
double variance_of(const Point& gradient, const Matrix& covariance);

// Gradients at a point, of each of `count` predictions, by each unknown that is wanted; else 0.
// Looks no further than unknowns may go.
Matrix gradients_at(const LeastSquares& problem, const Point& at, std::size_t count,
                    const std::vector<bool>& wanted);

}  // namespace pipesim
