#include "sim/compare/attribution.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <numeric>
#include <random>

namespace pipesim {
namespace {

// The same on every machine, other than std::shuffle.
void shuffle(std::vector<std::size_t>& order, std::mt19937_64& random) {
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
}

// Sums of many makespans need more than 64 bits only where these are ages long.
__extension__ using Sum = __int128;

}  // namespace

std::vector<std::int64_t> shares_of(Changes& changes) {
  const std::size_t count = changes.count();
  assert(count <= 8);
  if (count == 0) return {};
  // In the order of a Gray code, one change at a time.
  std::vector<std::int64_t> values(std::size_t{1} << count);
  std::size_t made = 0;
  values[0] = changes.value();
  for (std::size_t i = 1; i < values.size(); ++i) {
    const auto change = static_cast<std::size_t>(std::countr_zero(i));
    made ^= std::size_t{1} << change;
    if ((made >> change & 1) != 0) {
      changes.make(change);
    } else {
      changes.undo(change);
    }
    values[made] = changes.value();
  }
  changes.undo(count - 1);  // which the code ends with

  std::vector<std::int64_t> factorial{1};
  for (std::size_t n = 1; n <= count; ++n) {
    factorial.push_back(factorial.back() * static_cast<std::int64_t>(n));
  }
  std::vector<std::int64_t> shares(count);
  std::vector<std::pair<Sum, std::size_t>> rests;  // what rounding down leaves
  for (std::size_t change = 0; change < count; ++change) {
    Sum sum = 0;
    const std::size_t bit = std::size_t{1} << change;
    for (std::size_t set = 0; set < values.size(); ++set) {
      if ((set & bit) != 0) continue;
      const auto before = static_cast<std::size_t>(std::popcount(set));
      sum += Sum{factorial[before] * factorial[count - 1 - before]} *
             (values[set | bit] - values[set]);
    }
    Sum share = sum / factorial[count];
    Sum rest = sum % factorial[count];
    if (rest < 0) {
      rest += factorial[count];
      --share;
    }
    shares[change] = static_cast<std::int64_t>(share);
    rests.emplace_back(-rest, change);
  }
  // To those with the largest rests, the first of equals.
  std::ranges::sort(rests);
  std::int64_t missing = values.back() - values.front() -
                         std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  for (const auto& [rest, change] : rests) {
    if (missing-- == 0) break;
    ++shares[change];
  }
  return shares;
}

std::vector<SampledShare> sampled_shares(Changes& changes, std::size_t pairs) {
  const std::size_t count = changes.count();
  std::vector<SampledShare> shares(count);
  if (count == 0 || pairs == 0) return shares;
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> sums(count), squares(count), both(count);
  const std::int64_t none = changes.value();
  const auto go_through = [&](auto first, auto last) {
    std::int64_t before = none;
    for (auto at = first; at != last; ++at) {
      changes.make(*at);
      const std::int64_t now = changes.value();
      both[*at] += static_cast<double>(now - before) / 2;
      before = now;
    }
    for (auto at = first; at != last; ++at) changes.undo(*at);
  };
  std::mt19937_64 random(1);
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    if (pair > 0) shuffle(order, random);
    std::ranges::fill(both, 0);
    go_through(order.begin(), order.end());
    go_through(order.rbegin(), order.rend());
    for (std::size_t change = 0; change < count; ++change) {
      sums[change] += both[change];
      squares[change] += both[change] * both[change];
    }
  }
  const auto n = static_cast<double>(pairs);
  for (std::size_t change = 0; change < count; ++change) {
    const double mean = sums[change] / n;
    const double variance = std::max(0.0, squares[change] / n - mean * mean);
    shares[change] = {std::llround(mean),
                      pairs < 2 ? 0 : std::llround(std::sqrt(variance / (n - 1)))};
  }
  return shares;
}

}  // namespace pipesim
