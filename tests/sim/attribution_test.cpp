// Shares of changes, against all orders in which they can be made.
#include "sim/compare/attribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

namespace pipesim {
namespace {

// By a function of the set of changes, a bit each.
class Game final : public Changes {
 public:
  Game(std::size_t count, std::function<std::int64_t(unsigned)> value)
      : count_(count), value_(std::move(value)) {}

  std::size_t count() const override { return count_; }
  void make(std::size_t change) override {
    EXPECT_EQ(made_ >> change & 1U, 0U);
    made_ |= 1U << change;
  }
  void undo(std::size_t change) override {
    EXPECT_EQ(made_ >> change & 1U, 1U);
    made_ &= ~(1U << change);
  }
  std::int64_t value() override { return value_(made_); }
  unsigned made() const { return made_; }

 private:
  std::size_t count_;
  std::function<std::int64_t(unsigned)> value_;
  unsigned made_ = 0;
};

std::vector<std::int64_t> random_coalition_values(std::size_t count, std::mt19937_64& random) {
  std::vector<std::int64_t> values(std::size_t{1} << count);
  for (std::int64_t& value : values) value = static_cast<std::int64_t>(random() % 2001) - 1000;
  return values;
}

// The mean over all orders, one by one.
std::vector<double> mean_over_orders(const std::vector<std::int64_t>& values, std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> sums(count);
  double orders = 0;
  do {
    std::size_t made = 0;
    for (const std::size_t change : order) {
      const std::size_t before = made;
      made |= std::size_t{1} << change;
      sums[change] += static_cast<double>(values[made] - values[before]);
    }
    ++orders;
  } while (std::ranges::next_permutation(order).found);
  for (double& sum : sums) sum /= orders;
  return sums;
}

TEST(Attribution, IsTheMeanOverAllOrders) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::size_t count = 1 + random() % 6;
    const std::vector<std::int64_t> values = random_coalition_values(count, random);
    Game game(count, [&](unsigned made) { return values[made]; });
    const std::vector<std::int64_t> shares = shares_of(game);
    EXPECT_EQ(game.made(), 0U);
    const std::vector<double> means = mean_over_orders(values, count);
    for (std::size_t c = 0; c < count; ++c) {
      EXPECT_NEAR(static_cast<double>(shares[c]), means[c], 1);
    }
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}),
              values.back() - values.front());
  }
}

// The larger of two hides the smaller, whichever comes first.
TEST(Attribution, OfTwoThatHideEachOther) {
  Game game(2, [](unsigned made) {
    return std::max<std::int64_t>((made & 1U) != 0 ? 30 : 0, (made & 2U) != 0 ? 10 : 0);
  });
  EXPECT_EQ(shares_of(game), (std::vector<std::int64_t>{25, 5}));
  const auto sampled = sampled_shares(game, 1);
  EXPECT_EQ(sampled[0].share_ns, 25);
  EXPECT_EQ(sampled[1].share_ns, 5);
}

TEST(Attribution, SamplesLieWithinTheirErrors) {
  std::mt19937_64 random(2);
  int outside = 0;
  int all = 0;
  for (int i = 0; i < 40; ++i) {
    const std::vector<std::int64_t> values = random_coalition_values(5, random);
    Game game(5, [&](unsigned made) { return values[made]; });
    const std::vector<std::int64_t> exact = shares_of(game);
    const std::vector<SampledShare> sampled = sampled_shares(game, 60);
    EXPECT_EQ(game.made(), 0U);
    for (std::size_t c = 0; c < exact.size(); ++c) {
      ++all;
      outside += std::abs(sampled[c].share_ns - exact[c]) > 3 * sampled[c].error_ns + 1;
    }
  }
  EXPECT_LT(outside, all / 20);
}

// Where no more than two have to do with each other a single pair of orders is exact.
TEST(Attribution, PairsOfOrdersAreExactForPairs) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 50; ++i) {
    std::int64_t alone[6], both[6][6];
    for (auto& one : alone) one = 2 * static_cast<std::int64_t>(random() % 500);
    for (auto& row : both) {
      for (auto& one : row) one = 2 * (static_cast<std::int64_t>(random() % 500) - 250);
    }
    Game game(6, [&](unsigned made) {
      std::int64_t sum = 0;
      for (std::size_t a = 0; a < 6; ++a) {
        if ((made >> a & 1U) == 0) continue;
        sum += alone[a];
        for (std::size_t b = 0; b < a; ++b) sum += (made >> b & 1U) != 0 ? both[a][b] : 0;
      }
      return sum;
    });
    const std::vector<std::int64_t> exact = shares_of(game);
    const std::vector<SampledShare> sampled = sampled_shares(game, 3);
    for (std::size_t c = 0; c < exact.size(); ++c) {
      EXPECT_NEAR(static_cast<double>(sampled[c].share_ns), static_cast<double>(exact[c]), 1);
      EXPECT_EQ(sampled[c].error_ns, 0);
    }
  }
}

TEST(Attribution, OfNothingIsNothing) {
  Game game(0, [](unsigned) { return std::int64_t{7}; });
  EXPECT_TRUE(shares_of(game).empty());
  EXPECT_TRUE(sampled_shares(game, 10).empty());
}

}  // namespace
}  // namespace pipesim
