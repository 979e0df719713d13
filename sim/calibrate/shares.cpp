#include "sim/calibrate/shares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace pipesim {
namespace {

using Matrix = std::vector<std::vector<double>>;

// Gaussian elimination; the matrix is symmetric and positive definite.
std::vector<double> solve(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

}  // namespace

std::vector<double> deal_out(const std::vector<PartsSum>& sums, const std::vector<double>& usual) {
  const std::size_t parts = usual.size();
  double whole = 0;
  double usual_whole = 0;
  for (const PartsSum& equation : sums) {
    whole += equation.sum;
    for (std::size_t i = 0; i < parts; ++i) usual_whole += equation.counts[i] * usual[i];
  }
  std::vector<double> expected(parts);
  if (whole <= 0 || usual_whole <= 0) return expected;
  double largest = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    expected[i] = usual[i] * whole / usual_whole;
    largest = std::max(largest, expected[i]);
  }
  // The unknowns are ratios to what is expected, which are 1 but for what the
  // sums say: min |A x - b|^2 + tiny |x - 1|^2. Where one comes out below 0, its
  // part is none, and the others are found without it.
  constexpr double tiny = 1e-11;
  std::vector<bool> is_none(parts);
  const auto scale = [&](std::size_t i) {
    return is_none[i] ? 0 : std::max(expected[i], 1e-3 * largest) / whole;
  };
  for (;;) {
    Matrix normal(parts, std::vector<double>(parts));
    std::vector<double> right(parts);
    for (std::size_t i = 0; i < parts; ++i) {
      normal[i][i] = tiny;
      if (is_none[i]) continue;
      right[i] = tiny * expected[i] / (scale(i) * whole);
      for (const PartsSum& equation : sums) {
        const double own = equation.counts[i] * scale(i);
        right[i] += own * equation.sum / whole;
        for (std::size_t j = 0; j < parts; ++j) {
          normal[i][j] += own * equation.counts[j] * scale(j);
        }
      }
    }
    std::vector<double> found = solve(std::move(normal), std::move(right));
    bool any_below = false;
    for (std::size_t i = 0; i < parts; ++i) {
      found[i] *= scale(i) * whole;
      if (found[i] >= 0) continue;
      any_below = is_none[i] = true;
    }
    if (!any_below) return found;
  }
}

}  // namespace pipesim
