// Which rows of a table samples use: drawn, for the executor's batches, and on average, for
// estimates. Popularities are Zipf's: the k-th most popular row, from 0, is used in proportion to
// (k + 1)^-skew; a seed determines which row that is. A sample's ids depend only on seed, table and
// the sample's number, never on who draws it or when, nor on the machine. Plain values; const use
// is thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/input_pipeline/recommendation_model.h"

namespace pipesim {

// Random words (traces/base/split_mix.h), a separate sequence for each (seed, stream, place).
class IdRandom {
 public:
  IdRandom(std::uint64_t seed, std::uint64_t stream, std::uint64_t place);

  std::uint64_t word();
  double real();                           // in [0, 1), a multiple of 2^-53
  std::int64_t below(std::int64_t bound);  // in [0, bound), uniform
 private:
  std::uint64_t state_;
};

// Zipf's distribution over so many popularities.
class ZipfDistribution {
 public:
  ZipfDistribution(std::int64_t count, double skew);

  std::int64_t count() const { return count_; }
  double probability(std::int64_t popularity) const;
  // The probability that a draw is one of the `most` most popular. Exact to 1e-9.
  double share_of_first(std::int64_t most) const;
  // By rejection-inversion (Hörmann and Derflinger: "Rejection-inversion to generate variates from
  // monotone discrete distributions", ACM TOMACS 6.3, 1996): exact, in constant time.
  std::int64_t draw(IdRandom& random) const;

 private:
  double integral(double x) const;          // of x^-skew, up to a constant
  double inverse_integral(double y) const;  // its inverse

  std::int64_t count_;
  double skew_;
  double sum_;           // of all weights
  double first_, last_;  // the range of the integral to draw from
  double squeeze_;       // this close to a popularity's upper end nothing is rejected
};

// The rows by popularity: a permutation, by a Feistel network over the next power of 4,
// cycle-walked until the result is a row (Black and Rogaway: "Ciphers with arbitrary finite
// domains", CT-RSA 2002).
class RowOrder {
 public:
  RowOrder(std::int64_t rows, std::uint64_t seed, std::uint64_t table);

  std::int64_t row(std::int64_t popularity) const;

 private:
  static constexpr int rounds = 4;

  std::uint64_t rows_;
  int half_bits_ = 0;
  std::uint64_t keys_[rounds];
};

// For one table, the `index`-th of its model.
class IdDistribution {
 public:
  IdDistribution(const EmbeddingTable& table, int index, std::uint64_t seed);

  // Appends the ids of a sample; returns their number.
  std::int64_t append(std::int64_t sample, std::vector<std::int64_t>& ids) const;

  // The expected share of all ids that fall between consecutive `ends` of row ranges, which ascend
  // to the number of rows. The most popular rows are counted exactly; the rest is assumed to be
  // spread evenly.
  std::vector<double> shares(const std::vector<std::int64_t>& ends) const;

  std::int64_t row(std::int64_t popularity) const { return order_.row(popularity); }
  const ZipfDistribution& popularity() const { return zipf_; }

 private:
  std::int64_t ids_per_sample_;
  IdCount id_count_;
  std::uint64_t stream_;
  std::uint64_t seed_;
  ZipfDistribution zipf_;
  RowOrder order_;
};

}  // namespace pipesim
