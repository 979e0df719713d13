#include "sim/input_pipeline/id_distribution.h"

#include <algorithm>
#include <cmath>

#include "traces/base/portable_math.h"
#include "traces/base/split_mix.h"

namespace pipesim {
namespace {

constexpr std::int64_t counted_one_by_one = 4096;  // most popular rows counted one by one

double weight_of_place(double place, double skew) { return exponential(-skew * logarithm(place)); }

// The sum of the weights of ranks first + 1, ..., last, by Euler and Maclaurin: `first` is large.
double sum_of_tail(double first, double last, double skew) {
  const double from = first + 1;
  const double growth = logarithm(last / from);
  const double integral =
      weight_of_place(from, skew) * from * growth * exponential_ratio((1 - skew) * growth);
  const double ends = (weight_of_place(from, skew) + weight_of_place(last, skew)) / 2;
  const double slopes =
      skew * (weight_of_place(from, skew + 1) - weight_of_place(last, skew + 1)) / 12;
  return integral + ends + slopes;
}

// The sum of the weights of the first `most` ranks.
double sum_of_weights(std::int64_t most, double skew) {
  double sum = 0;
  // From the smallest up, to lose little precision.
  for (std::int64_t place = std::min(most, counted_one_by_one); place > 0; --place) {
    sum += weight_of_place(static_cast<double>(place), skew);
  }
  if (most <= counted_one_by_one) return sum;
  return sum + sum_of_tail(counted_one_by_one, static_cast<double>(most), skew);
}

}  // namespace

IdRandom::IdRandom(std::uint64_t seed, std::uint64_t stream, std::uint64_t place)
    : state_(split_mix(split_mix(split_mix(seed) ^ stream) ^ place)) {}

std::uint64_t IdRandom::word() {
  const std::uint64_t word = split_mix(state_);
  state_ += split_mix_step;
  return word;
}

double IdRandom::real() { return static_cast<double>(word() >> 11) * 0x1p-53; }

std::int64_t IdRandom::below(std::int64_t bound) {
  // Words that would make the first remainders more frequent are rejected.
  const auto whole = static_cast<std::uint64_t>(bound);
  const std::uint64_t too_few = (0 - whole) % whole;
  std::uint64_t drawn = word();
  while (drawn < too_few) drawn = word();
  return static_cast<std::int64_t>(drawn % whole);
}

// x^-skew integrated from 1 on is (x^(1 - skew) - 1) / (1 - skew), log x for a skew of 1.
double ZipfDistribution::integral(double x) const {
  const double log = logarithm(x);
  return log * exponential_ratio((1 - skew_) * log);
}
double ZipfDistribution::inverse_integral(double y) const {
  const double scaled = std::max((1 - skew_) * y, -1.0);  // less only by rounding
  return exponential(y * logarithm_ratio(scaled));
}

ZipfDistribution::ZipfDistribution(std::int64_t count, double skew)
    : count_(count),
      skew_(skew),
      sum_(sum_of_weights(count, skew)),
      first_(integral(1.5) - 1),
      last_(integral(static_cast<double>(count) + 0.5)),
      squeeze_(2 - inverse_integral(integral(2.5) - weight_of_place(2, skew))) {}

double ZipfDistribution::probability(std::int64_t popularity) const {
  return weight_of_place(static_cast<double>(popularity + 1), skew_) / sum_;
}

double ZipfDistribution::share_of_first(std::int64_t most) const {
  if (most >= count_) return 1;
  return sum_of_weights(most, skew_) / sum_;
}

std::int64_t ZipfDistribution::draw(IdRandom& random) const {
  if (skew_ == 0) return random.below(count_);
  // Each rank has an interval of the integral that ends half a rank after it; the excess over its
  // weight is rejected.
  for (;;) {
    const double y = last_ + random.real() * (first_ - last_);
    const double x = inverse_integral(y);
    const double place = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(count_));
    if (place - x <= squeeze_ || y >= integral(place + 0.5) - weight_of_place(place, skew_)) {
      return static_cast<std::int64_t>(place) - 1;
    }
  }
}

RowOrder::RowOrder(std::int64_t rows, std::uint64_t seed, std::uint64_t table)
    : rows_(static_cast<std::uint64_t>(rows)) {
  while ((std::uint64_t{1} << (2 * half_bits_)) < rows_) ++half_bits_;
  IdRandom random(seed, table, ~std::uint64_t{0});
  for (std::uint64_t& key : keys_) key = random.word();
}

std::int64_t RowOrder::row(std::int64_t popularity) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto walked = static_cast<std::uint64_t>(popularity);
  do {
    std::uint64_t left = walked >> half_bits_;
    std::uint64_t right = walked & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t next = left ^ (split_mix(right + key) & mask);
      left = right;
      right = next;
    }
    walked = left << half_bits_ | right;
  } while (walked >= rows_);
  return static_cast<std::int64_t>(walked);
}

IdDistribution::IdDistribution(const EmbeddingTable& table, int index, std::uint64_t seed)
    : ids_per_sample_(table.ids_per_sample),
      id_count_(table.id_count),
      stream_(static_cast<std::uint64_t>(index)),
      seed_(seed),
      zipf_(table.rows, table.skew),
      order_(table.rows, seed, stream_) {}

std::int64_t IdDistribution::append(std::int64_t sample, std::vector<std::int64_t>& ids) const {
  IdRandom random(seed_, stream_, static_cast<std::uint64_t>(sample));
  const std::int64_t count =
      id_count_ == IdCount::fixed ? ids_per_sample_ : random.below(2 * ids_per_sample_ + 1);
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(order_.row(zipf_.draw(random)));
  return count;
}

std::vector<double> IdDistribution::shares(const std::vector<std::int64_t>& ends) const {
  const std::int64_t popular = std::min(zipf_.count(), counted_one_by_one);
  std::vector<double> shares(ends.size(), 0);
  std::vector<std::int64_t> others(ends.size(), 0);
  for (std::size_t i = 0; i < ends.size(); ++i) others[i] = ends[i] - (i == 0 ? 0 : ends[i - 1]);
  for (std::int64_t place = popular - 1; place >= 0; --place) {
    const auto part = std::ranges::upper_bound(ends, order_.row(place)) - ends.begin();
    shares[static_cast<std::size_t>(part)] += zipf_.probability(place);
    --others[static_cast<std::size_t>(part)];
  }
  if (popular == zipf_.count()) return shares;
  const double each =
      (1 - zipf_.share_of_first(popular)) / static_cast<double>(zipf_.count() - popular);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    shares[i] += each * static_cast<double>(others[i]);
  }
  return shares;
}

}  // namespace pipesim
