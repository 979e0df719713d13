#include "sim/advice/spread.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace pipesim {
namespace {

constexpr std::int64_t max_actions = 40'000'000;  // simulated for shares
constexpr int min_seeds = 10;                     // that say anything of them

std::int64_t nearest_rank(const std::vector<std::int64_t>& sorted, int percent) {
  const std::size_t at = (sorted.size() * static_cast<std::size_t>(percent) + 99) / 100;
  return sorted[std::max<std::size_t>(at, 1) - 1];
}

// Numbers for the order of ranks, by seed.
class Shuffle {
 public:
  explicit Shuffle(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 1) {}

  void order(std::vector<int>& ranks) {
    for (std::size_t i = ranks.size(); i > 1; --i) {
      // A linear congruential generator's upper bits (Knuth's MMIX).
      state_ = state_ * 6364136223846793005U + 1442695040888963407U;
      std::swap(ranks[i - 1], ranks[(state_ >> 33U) % i]);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace

MakespanSpread find_spread(const Schedule& schedule, const Costs& costs,
                           const SimulationOptions& options, const SpreadQuestion& question,
                           bool by_rank) {
  SimulationOptions own = options;
  own.sink = {};
  const auto makespan = [&](std::uint64_t seed, std::vector<bool> ranks) {
    const Jitter jitter(question.variation, seed, std::move(ranks));
    own.jitter = &jitter;
    return simulate(schedule, costs, own).makespan_ns;
  };
  MakespanSpread spread;
  spread.seeds = question.seeds;
  std::vector<std::int64_t> makespans;
  for (int seed = 1; seed <= question.seeds; ++seed) {
    makespans.push_back(makespan(static_cast<std::uint64_t>(seed), {}));
  }
  std::vector<std::int64_t> sorted = makespans;
  std::ranges::sort(sorted);
  spread.p50_ns = nearest_rank(sorted, 50);
  spread.p95_ns = nearest_rank(sorted, 95);

  const auto ranks = static_cast<std::size_t>(schedule.ranks());
  const std::int64_t actions = std::max<std::int64_t>(1, schedule.actions.size());
  const std::int64_t affordable = max_actions / (actions * options.iterations) / schedule.ranks();
  const int seeds = static_cast<int>(std::min<std::int64_t>(question.seeds, affordable));
  if (!by_rank || seeds < min_seeds) return spread;
  own.jitter = nullptr;
  const std::int64_t steady_ns = simulate(schedule, costs, own).makespan_ns;
  double mean = 0;
  for (int s = 0; s < seeds; ++s) {
    mean += static_cast<double>(makespans[static_cast<std::size_t>(s)]) / seeds;
  }
  std::vector<double> covariances(ranks);
  double variance = 0;
  std::vector<int> order(ranks);
  for (int s = 0; s < seeds; ++s) {
    const auto seed = static_cast<std::uint64_t>(s + 1);
    std::iota(order.begin(), order.end(), 0);
    Shuffle(seed).order(order);
    const double beyond = static_cast<double>(makespans[static_cast<std::size_t>(s)]) - mean;
    variance += beyond * beyond;
    std::vector<bool> varying(ranks);
    std::int64_t before_ns = steady_ns;
    for (std::size_t place = 0; place < ranks; ++place) {
      const auto rank = static_cast<std::size_t>(order[place]);
      varying[rank] = true;
      const std::int64_t after_ns =
          place + 1 == ranks ? makespans[static_cast<std::size_t>(s)] : makespan(seed, varying);
      covariances[rank] += static_cast<double>(after_ns - before_ns) * beyond;
      before_ns = after_ns;
    }
  }
  if (variance <= 0) return spread;
  // A rank that adds nothing may seem to take away by chance.
  double sum = 0;
  for (double& covariance : covariances) sum += covariance = std::max(covariance, 0.0);
  for (const double covariance : covariances) spread.rank_shares.push_back(covariance / sum);
  return spread;
}

}  // namespace pipesim
