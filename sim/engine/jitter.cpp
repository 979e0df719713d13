#include "sim/engine/jitter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "traces/base/split_mix.h"

namespace pipesim {
namespace {

std::uint64_t key_of(std::uint64_t seed, const Action& action) {
  std::uint64_t key = split_mix(seed);
  for (const auto part :
       {static_cast<std::uint64_t>(action.kind), static_cast<std::uint64_t>(action.stage),
        static_cast<std::uint64_t>(action.microbatch)}) {
    key = split_mix(key ^ part);
  }
  return key;
}

}  // namespace

Jitter::Jitter(const Variation& variation, std::uint64_t seed, std::vector<bool> ranks)
    : variation_(variation), seed_(seed), ranks_(std::move(ranks)) {
  const std::vector<std::int64_t>& quantiles = variation.quantiles_ppm;
  for (std::size_t i = 0; i + 1 < quantiles.size(); ++i) {
    mean_ppm_ += static_cast<double>(quantiles[i] + quantiles[i + 1]) / 2;
  }
  if (quantiles.size() > 1) mean_ppm_ /= static_cast<double>(quantiles.size() - 1);
}

double Jitter::factor(const Action& action) const {
  constexpr double range = 4294967296.0;
  std::uint64_t key = key_of(seed_, action);
  const std::vector<std::int64_t>& quantiles = variation_.quantiles_ppm;
  if (quantiles.size() > 1) {
    const double place = static_cast<double>(split_mix(key) >> 32U) / range *
                         static_cast<double>(quantiles.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const auto low = static_cast<double>(quantiles[below]);
    const auto high = static_cast<double>(quantiles[below + 1]);
    const double ppm = low + (high - low) * (place - static_cast<double>(below));
    return mean_ppm_ > 0 ? ppm / mean_ppm_ : 1;
  }
  double normal = -6;
  for (int i = 0; i < 6; ++i) {
    key = split_mix(key);
    normal += static_cast<double>(key >> 32U) / range;
    normal += static_cast<double>(key & 0xffffffffU) / range;
  }
  return std::max(0.0, 1 + variation_.deviation * normal);
}

std::int64_t Jitter::applied(const Action& action, int rank, std::int64_t duration_ns) const {
  if (!ranks_.empty() && !ranks_[static_cast<std::size_t>(rank)]) return duration_ns;
  return std::llround(static_cast<double>(duration_ns) * factor(action));
}

}  // namespace pipesim
