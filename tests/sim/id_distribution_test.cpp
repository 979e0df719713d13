// Which rows samples ask for: a permutation, frequencies against the exact distribution, expected
// shares against draws.
#include "sim/input_pipeline/id_distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace pipesim {
namespace {

EmbeddingTable table_of(std::int64_t rows, double skew, std::int64_t ids = 1,
                        IdCount count = IdCount::fixed) {
  return {"t", rows, 4, ids, count, skew};
}

TEST(IdDistributions, RowsByPopularityAreAPermutation) {
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 15, 16, 17, 255, 1000, 4097, 70'000}) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      const RowOrder order(rows, seed, 3);
      std::vector<bool> seen(static_cast<std::size_t>(rows), false);
      for (std::int64_t popularity = 0; popularity < rows; ++popularity) {
        const std::int64_t row = order.row(popularity);
        ASSERT_GE(row, 0);
        ASSERT_LT(row, rows);
        ASSERT_FALSE(seen[static_cast<std::size_t>(row)]) << rows << " rows, row " << row;
        seen[static_cast<std::size_t>(row)] = true;
      }
    }
  }
}

TEST(IdDistributions, SeedAndTableChooseThePermutation) {
  std::set<std::vector<std::int64_t>> orders;
  for (const std::uint64_t seed : {1, 2}) {
    for (const std::uint64_t table : {0, 1}) {
      std::vector<std::int64_t> first;
      for (std::int64_t k = 0; k < 20; ++k) first.push_back(RowOrder(1000, seed, table).row(k));
      orders.insert(first);
    }
  }
  EXPECT_EQ(orders.size(), 4U);
}

// Pearson's statistic of draws against exact probabilities, computed by the library's power; what
// is expected less than 20 times is counted together.
TEST(IdDistributions, DrawsFollowZipfsLaw) {
  constexpr int draws = 200'000;
  for (const double skew : {0.0, 0.3, 0.9, 1.0, 1.05, 1.5, 2.0, 4.0}) {
    for (const int rows : {1, 2, 3, 10, 300}) {
      std::vector<double> exact;
      for (int k = 1; k <= rows; ++k) exact.push_back(std::pow(k, -skew));
      const double sum = std::accumulate(exact.begin(), exact.end(), 0.0);
      const ZipfDistribution zipf(rows, skew);
      IdRandom random(7, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(skew * 100));
      std::vector<int> drawn(exact.size(), 0);
      for (int i = 0; i < draws; ++i) {
        const std::int64_t popularity = zipf.draw(random);
        ASSERT_GE(popularity, 0);
        ASSERT_LT(popularity, rows);
        ++drawn[static_cast<std::size_t>(popularity)];
      }
      double statistic = 0;
      int cells = 0;
      double rare = 0;
      double rare_expected = 0;
      const auto add = [&](double seen, double expected) {
        statistic += (seen - expected) * (seen - expected) / expected;
        ++cells;
      };
      for (std::size_t k = 0; k < exact.size(); ++k) {
        const double expected = draws * exact[k] / sum;
        EXPECT_NEAR(zipf.probability(static_cast<std::int64_t>(k)), exact[k] / sum, 1e-12);
        if (expected >= 20) {
          add(drawn[k], expected);
        } else {
          rare += drawn[k];
          rare_expected += expected;
        }
      }
      if (rare_expected > 5) add(rare, rare_expected);
      if (cells < 2) continue;
      // Below this with a probability of more than 0.9999 (Wilson and Hilferty).
      const double free = cells - 1;
      const double most = free * std::pow(1 - 2 / (9 * free) + 3.72 * std::sqrt(2 / (9 * free)), 3);
      EXPECT_LT(statistic, most) << "skew " << skew << ", " << rows << " rows";
    }
  }
}

TEST(IdDistributions, SharesOfTheMostPopularAreSums) {
  constexpr int rows = 300'000;
  for (const double skew : {0.0, 0.5, 1.0, 1.2, 3.0}) {
    double all = 0;
    for (int k = rows; k > 0; --k) all += std::pow(k, -skew);
    const ZipfDistribution zipf(rows, skew);
    for (const int most : {0, 1, 10, 4096, 4097, 10'000, rows - 1, rows}) {
      double sum = 0;
      for (int k = most; k > 0; --k) sum += std::pow(k, -skew);
      EXPECT_NEAR(zipf.share_of_first(most), sum / all, 1e-9) << skew << ", " << most;
    }
  }
}

// The same on every machine; from a program of a few lines in another language.
TEST(IdDistributions, GoldenDraws) {
  IdRandom random(1, 2, 3);
  EXPECT_EQ(random.word(), 1'321'962'074'176'129'191U);
  std::vector<std::int64_t> ids;
  EXPECT_EQ(IdDistribution(table_of(1'000'000, 1.05, 6), 2, 42).append(17, ids), 6);
  EXPECT_EQ(ids, (std::vector<std::int64_t>{382'586, 946'475, 297'289, 387'938, 295'649, 747'289}));
}

TEST(IdDistributions, SamplesAreTheirOwn) {
  const IdDistribution ids(table_of(1000, 1, 5, IdCount::uniform), 1, 9);
  std::vector<std::int64_t> together;
  std::vector<std::int64_t> apart;
  for (const std::int64_t sample : {0, 1, 2, 3}) ids.append(sample, together);
  for (const std::int64_t sample : {3, 2, 1, 0}) {
    std::vector<std::int64_t> one;
    ids.append(sample, one);
    apart.insert(apart.begin(), one.begin(), one.end());
  }
  EXPECT_EQ(together, apart);
}

TEST(IdDistributions, CountsOfIds) {
  std::vector<std::int64_t> ids;
  const IdDistribution fixed(table_of(10, 0, 3), 0, 1);
  for (int sample = 0; sample < 20; ++sample) EXPECT_EQ(fixed.append(sample, ids), 3);
  const IdDistribution uniform(table_of(10, 0, 3, IdCount::uniform), 0, 1);
  std::vector<int> seen(7, 0);
  constexpr int samples = 70'000;
  for (int sample = 0; sample < samples; ++sample) {
    ids.clear();
    const std::int64_t count = uniform.append(sample, ids);
    ASSERT_EQ(count, std::ssize(ids));
    ++seen.at(static_cast<std::size_t>(count));
  }
  double statistic = 0;
  for (const int times : seen) statistic += std::pow(times - samples / 7, 2) / (samples / 7.0);
  EXPECT_LT(statistic, 27.9);  // 6 degrees of freedom, one in ten thousand
}

// Against draws: within five standard deviations.
TEST(IdDistributions, ExpectedSharesOfRows) {
  for (const double skew : {0.0, 0.8, 1.2}) {
    for (const std::int64_t rows : {7, 5000, 200'000}) {
      const IdDistribution distribution(table_of(rows, skew, 10), 4, 11);
      const std::vector<std::int64_t> ends{rows / 5, rows / 2, rows / 2 + 1, rows};
      const std::vector<double> shares = distribution.shares(ends);
      std::vector<std::int64_t> ids;
      for (int sample = 0; sample < 20'000; ++sample) distribution.append(sample, ids);
      const auto all = static_cast<double>(ids.size());
      EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-9);
      std::int64_t begin = 0;
      for (std::size_t part = 0; part < ends.size(); ++part) {
        const auto drawn = static_cast<double>(std::ranges::count_if(
            ids, [&](std::int64_t id) { return id >= begin && id < ends[part]; }));
        EXPECT_NEAR(drawn, all * shares[part], 5 * std::sqrt(all * shares[part]) + 1)
            << skew << ", " << rows << " rows, part " << part;
        begin = ends[part];
      }
    }
  }
}

}  // namespace
}  // namespace pipesim
