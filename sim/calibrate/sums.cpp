#include "sim/calibrate/sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "traces/base/error.h"

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

// A group of parts that share sums, directly or via others, and those sums.
struct Sharing {
  std::vector<std::size_t> parts;  // ascending
  std::vector<const PartsSum*> sums;
};

std::vector<Sharing> groups_of(const std::vector<PartsSum>& sums, std::size_t parts) {
  std::vector<std::size_t> towards(parts);  // a part of the same group; the head's is itself
  std::iota(towards.begin(), towards.end(), std::size_t{0});
  const auto head = [&](std::size_t part) {
    while (towards[part] != part) part = towards[part] = towards[towards[part]];
    return part;
  };
  for (const PartsSum& equation : sums) {
    for (const auto& [part, count] : equation.counts) {
      towards[head(part)] = head(equation.counts.front().first);
    }
  }
  std::vector<Sharing> groups(parts);
  for (std::size_t part = 0; part < parts; ++part) groups[head(part)].parts.push_back(part);
  for (const PartsSum& equation : sums) {
    if (!equation.counts.empty()) {
      groups[head(equation.counts.front().first)].sums.push_back(&equation);
    }
  }
  std::erase_if(groups, [](const Sharing& group) { return group.parts.empty(); });
  return groups;
}

std::vector<double> parts_of(const Sharing& group, const std::vector<double>& expected) {
  const std::size_t parts = group.parts.size();
  double whole = 0;
  for (const PartsSum* equation : group.sums) whole += equation->sum;
  double largest = 0;
  for (const std::size_t part : group.parts) largest = std::max(largest, expected[part]);
  if (group.sums.empty()) return {expected[group.parts.front()]};
  if (whole <= 0) return std::vector<double>(parts);
  std::vector<double> scale;  // scales each to about 1; 0 for parts that are 0
  for (const std::size_t part : group.parts) {
    scale.push_back(std::max(expected[part], largest > 0 ? 1e-3 * largest : whole) / whole);
  }
  const auto place_of = [&](std::size_t part) {
    return static_cast<std::size_t>(std::ranges::lower_bound(group.parts, part) -
                                    group.parts.begin());
  };
  // The unknowns are ratios to the expected values, 1 unless the sums say otherwise: min |A x -
  // b|^2 + tiny |x - 1|^2. If one is negative, its part is 0, and the others are solved without it.
  constexpr double tiny = 1e-11;
  for (;;) {
    Matrix normal(parts, std::vector<double>(parts));
    std::vector<double> right(parts);
    for (std::size_t i = 0; i < parts; ++i) {
      normal[i][i] = tiny;
      if (scale[i] > 0) right[i] = tiny * expected[group.parts[i]] / (scale[i] * whole);
    }
    for (const PartsSum* equation : group.sums) {
      for (const auto& [part, count] : equation->counts) {
        const std::size_t i = place_of(part);
        const double own = count * scale[i];
        right[i] += own * equation->sum / whole;
        for (const auto& [other, others] : equation->counts) {
          const std::size_t j = place_of(other);
          normal[i][j] += own * others * scale[j];
        }
      }
    }
    std::vector<double> found = solve(std::move(normal), std::move(right));
    bool any_below = false;
    for (std::size_t i = 0; i < parts; ++i) {
      found[i] *= scale[i] * whole;
      if (found[i] >= 0) continue;
      any_below = true;
      scale[i] = 0;
    }
    if (!any_below) return found;
  }
}

}  // namespace

std::vector<double> deal_out(const std::vector<PartsSum>& sums, const std::vector<double>& usual) {
  const std::size_t parts = usual.size();
  double whole = 0;
  double usual_whole = 0;
  for (const PartsSum& equation : sums) {
    whole += equation.sum;
    for (const auto& [part, count] : equation.counts) usual_whole += count * usual[part];
  }
  std::vector<double> result(parts);
  if (whole <= 0 || usual_whole <= 0) return result;
  std::vector<double> expected;
  for (const double part : usual) expected.push_back(part * whole / usual_whole);
  for (const Sharing& group : groups_of(sums, parts)) {
    constexpr std::size_t most = 256;
    if (group.parts.size() > most) {
      throw input_error(fmt::format(
          "{} kinds of layers share overlapping sums; at most {} can be told apart: give "
          "layers of a kind one name and a number, as 'block 1' and 'block 2'",
          group.parts.size(), most));
    }
    const std::vector<double> found = parts_of(group, expected);
    for (std::size_t i = 0; i < found.size(); ++i) result[group.parts[i]] = found[i];
  }
  return result;
}

}  // namespace pipesim
