// Which rows of a table samples ask for: drawn, as the executor's batches are, and in the mean, as
// estimates take them.
//
// Popularities are Zipf's: the k-th most popular row, from 0, is asked for in proportion to
// (k + 1)^-skew; which row that is, a seed says. What a sample draws depends on seed, table and the
// sample's number alone, never on who draws it or when, nor on the machine. Plain values; const use
// is thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/input_pipeline/recommendation_model.h"

namespace pipesim {

// Random words (traces/base/split_mix.h). What differs in any of `seed`, `stream` and `place` has
// words of its own.
class IdRandom {
 public:
  IdRandom(std::uint64_t seed, std::uint64_t stream, std::uint64_t place);

  std::uint64_t word();
  double real();                           // in [0, 1), a multiple of 2^-53
  std::int64_t below(std::int64_t bound);  // in [0, bound), all alike
 private:
  std::uint64_t state_;
};

// Zipf's distribution over so many popularities.
class ZipfDistribution {
 public:
  ZipfDistribution(std::int64_t count, double skew);

  std::int64_t count() const { return count_; }
  double probability(std::int64_t popularity) const;
  // That a draw is one of the `most` most popular ones. Exact to 1e-9.
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
  double first_, last_;  // the integral's range that is drawn from
  double squeeze_;       // so near to a popularity's upper end nothing is rejected
};

// The rows by popularity: a permutation, by a Feistel network over the next power of 4 that is
// walked until it is back among the rows (Black and Rogaway: "Ciphers with arbitrary finite
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

// Of one table, the `index`-th of its model.
class IdDistribution {
 public:
  IdDistribution(const EmbeddingTable& table, int index, std::uint64_t seed);

  // Appends the ids of a sample; returns how many they are.
  std::int64_t append(std::int64_t sample, std::vector<std::int64_t>& ids) const;

  // The part of all ids, in the mean, that fall in rows up to each of `ends`, from the end before
  // on: ascending ones, the last of which is all rows. Of the most popular rows it is counted where
  // each one is; the rest counts as spread evenly.
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
