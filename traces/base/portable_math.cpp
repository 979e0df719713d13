#include "traces/base/portable_math.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

namespace pipesim {
namespace {

template <std::size_t count>
double polynomial(const std::array<double, count>& factors, double x) {
  double sum = 0;
  for (std::size_t i = count; i-- > 0;) sum = sum * x + factors[i];
  return sum;
}

// log((1 + s) / (1 - s)) / (2 s), for |s| below 0.18.
double artanh_ratio(double s) {
  constexpr std::array<double, 11> factors{1,        1.0 / 3,  1.0 / 5,  1.0 / 7,
                                           1.0 / 9,  1.0 / 11, 1.0 / 13, 1.0 / 15,
                                           1.0 / 17, 1.0 / 19, 1.0 / 21};
  return polynomial(factors, s * s);
}

// (e^x - 1) / x, for |x| below 0.35.
double small_exponential_ratio(double x) {
  constexpr auto factors = [] {
    std::array<double, 14> all{1};
    for (std::size_t i = 1; i < all.size(); ++i) all[i] = all[i - 1] / static_cast<double>(i + 1);
    return all;
  }();
  return polynomial(factors, x);
}

}  // namespace

double logarithm(double x) {
  int exponent = 0;
  double part = std::frexp(x, &exponent);  // from 0.5 to below 1
  if (part < std::numbers::sqrt2 / 2) {
    part *= 2;
    --exponent;
  }
  const double s = (part - 1) / (part + 1);
  return exponent * std::numbers::ln2 + 2 * s * artanh_ratio(s);
}

double exponential(double x) {
  constexpr double most = 710;
  constexpr double least = -746;
  if (x > most) return std::numeric_limits<double>::infinity();
  if (x < least) return 0;
  // In two parts, the first with trailing zeros, so that its multiples are exact.
  constexpr double upper = 0x1.62e42fee00000p-1;
  constexpr double lower = 0x1.a39ef35793c76p-33;
  const double twos = std::floor(x / std::numbers::ln2 + 0.5);
  const double rest = (x - twos * upper) - twos * lower;
  return std::ldexp(1 + rest * small_exponential_ratio(rest), static_cast<int>(twos));
}

double exponential_ratio(double x) {
  return std::abs(x) < 0.3 ? small_exponential_ratio(x) : (exponential(x) - 1) / x;
}

double logarithm_ratio(double x) {
  return std::abs(x) < 0.3 ? 2 / (2 + x) * artanh_ratio(x / (2 + x)) : logarithm(1 + x) / x;
}

}  // namespace pipesim
