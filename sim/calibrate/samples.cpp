#include "sim/calibrate/samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pipesim {

std::vector<std::int64_t> Samples::sorted() const {
  std::vector<std::int64_t> values = values_;
  std::ranges::sort(values);
  return values;
}

double Samples::typical() const {
  if (values_.empty()) return 0;
  const std::vector<std::int64_t> values = sorted();
  std::size_t out = values.size() / 10;
  if (values.size() >= 3) out = std::max<std::size_t>(out, 1);
  // Sums of differences are exact if all samples are equal.
  const std::int64_t base = values[out];
  double sum = 0;
  for (std::size_t i = out; i < values.size() - out; ++i) {
    sum += static_cast<double>(values[i] - base);
  }
  return static_cast<double>(base) + sum / static_cast<double>(values.size() - 2 * out);
}

std::int64_t Samples::typical_ns() const {
  return std::max<std::int64_t>(0, std::llround(typical()));
}

std::int64_t Samples::quantile(double fraction) const {
  if (values_.empty()) return 0;
  const std::vector<std::int64_t> values = sorted();
  const auto rank = std::ceil(fraction * static_cast<double>(values.size())) - 1;
  return values[static_cast<std::size_t>(std::max(0.0, rank))];
}

Spread Samples::spread() const {
  return {count(), std::max<std::int64_t>(0, quantile(0.1)),
          std::max<std::int64_t>(0, quantile(0.9))};
}

}  // namespace pipesim
