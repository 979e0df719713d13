// Sums dealt out to their parts.
#include "sim/calibrate/sums.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/errors.h"

namespace pipesim {
namespace {

TEST(Shares, FitTheSumsAndKeepProportions) {
  // Two stages of an embedding and two blocks, and of two blocks and a head.
  const std::vector<PartsSum> sums{{{{0, 1}, {1, 2}}, 50}, {{{1, 2}, {2, 1}}, 44}};
  const auto parts = deal_out(sums, {1, 2, 0.4});
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_NEAR(parts[0] + 2 * parts[1], 50, 1e-6);
  EXPECT_NEAR(2 * parts[1] + parts[2], 44, 1e-6);
  EXPECT_NEAR(parts[0], 10, 1.0);
  EXPECT_NEAR(parts[1], 20, 1.0);
  EXPECT_NEAR(parts[2], 4, 1.0);
  // A part that would have to be negative is none, and sums still fit.
  const auto no_head =
      deal_out({{{{0, 1}, {1, 1}}, 1000}, {{{1, 1}, {2, 1}}, 600}}, {110, 260, 410});
  EXPECT_NEAR(no_head[0], 400, 1e-3);
  EXPECT_NEAR(no_head[1], 600, 1e-3);
  EXPECT_NEAR(no_head[2], 0, 1e-3);
  // Where sums determine all parts, what is usual does not matter.
  const auto determined = deal_out({{{{0, 1}, {1, 1}}, 7}, {{{0, 1}, {1, 3}}, 13}}, {9, 1});
  EXPECT_NEAR(determined[0], 4, 1e-3);
  EXPECT_NEAR(determined[1], 3, 1e-3);
  EXPECT_EQ(deal_out({{{{0, 1}, {1, 1}}, 0}}, {1, 1}), (std::vector<double>{0, 0}));
}

// Groups of parts that share no sum are found each by itself, with the same result.
TEST(Shares, OfGroupsAreThoseOfEachAlone) {
  std::vector<PartsSum> sums;
  std::vector<double> usual;
  for (std::size_t g = 0; g < 1000; ++g) {
    const auto times = static_cast<double>(1 + g % 7);
    sums.push_back({{{2 * g, 1}, {2 * g + 1, 2}}, 5 * times});
    sums.push_back({{{2 * g, 2}, {2 * g + 1, 1}}, 7 * times});
    usual.insert(usual.end(), {times, times});
  }
  const std::vector<double> parts = deal_out(sums, usual);
  for (std::size_t g = 0; g < 1000; ++g) {
    const auto times = static_cast<double>(1 + g % 7);
    ASSERT_NEAR(parts[2 * g], 3 * times, 1e-3) << g;
    ASSERT_NEAR(parts[2 * g + 1], times, 1e-3) << g;
  }
}

TEST(Shares, OfPartsThatUsuallyAreNothingAreEqual) {
  const std::vector<double> parts = deal_out({{{{0, 1}}, 5}, {{{1, 1}, {2, 1}}, 8}}, {1, 0, 0});
  EXPECT_NEAR(parts[0], 5, 1e-6);
  EXPECT_NEAR(parts[1], 4, 1e-6);
  EXPECT_NEAR(parts[2], 4, 1e-6);
}

TEST(Shares, OfTooManyKindsAreRefused) {
  std::vector<PartsSum> chain;
  for (std::size_t i = 0; i < 300; ++i) chain.push_back({{{i, 1}, {i + 1, 1}}, 2});
  const std::vector<double> usual(301, 1.0);
  EXPECT_NE(testing::input_error_of([&] { deal_out(chain, usual); }).find("at most 256"),
            std::string::npos);
  chain.resize(255);
  EXPECT_EQ(deal_out(chain, usual).size(), 301U);
}

}  // namespace
}  // namespace pipesim
