// Logarithms and exponentials against those of the library.
#include "traces/base/portable_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace pipesim {
namespace {

constexpr double close = 1e-14;  // relative

TEST(PortableMath, AgreesWithTheLibrary) {
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    const double expected = std::log(x);
    EXPECT_NEAR(logarithm(x), expected, close * std::max(1.0, std::abs(expected))) << x;
  }
  for (double x = -700; x < 700; x += 0.37) {
    EXPECT_NEAR(exponential(x) / std::exp(x), 1, close) << x;
  }
}

TEST(PortableMath, KeepsWhatIsSmall) {
  for (double x = 1e-18; x < 700; x *= 1.31) {
    EXPECT_NEAR(exponential_ratio(-x) / (std::expm1(-x) / -x), 1, close) << x;
    EXPECT_NEAR(exponential_ratio(x) / (std::expm1(x) / x), 1, close) << x;
    EXPECT_NEAR(logarithm_ratio(x) / (std::log1p(x) / x), 1, close) << x;
  }
  EXPECT_EQ(exponential_ratio(0), 1);
  EXPECT_EQ(logarithm_ratio(0), 1);
}

TEST(PortableMath, EndsWhereDoublesDo) {
  EXPECT_EQ(exponential(1e300), std::numeric_limits<double>::infinity());
  EXPECT_EQ(exponential(-1e300), 0);
  EXPECT_EQ(exponential(0), 1);
}

}  // namespace
}  // namespace pipesim
