// Jitter: the factor on an action's time in one random draw.
//
// A draw depends only on seed, stage, kind and microbatch, not on the order of
// evaluation or the schedule, so schedules are compared with the same random numbers.
// Plain arithmetic, no library's distribution: the same on every machine. Plain values; reading
// is const and thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/action.h"

namespace pipesim {

// The variation of single actions relative to their costs, which stay the mean.
struct Variation {
  // Standard deviation of a normal distribution, as the sum of twelve uniform numbers; factors
  // below 0 are 0. Where there are no quantiles.
  double deviation = 0;
  // At equal distances from the least to the largest factor, in millionths; what lies between
  // two is as likely everywhere.
  std::vector<std::int64_t> quantiles_ppm = {};

  bool varies() const { return deviation > 0 || quantiles_ppm.size() > 1; }
};

class Jitter {
 public:
  // Only for `ranks`, by rank, if any are given. `variation` outlives it.
  Jitter(const Variation& variation, std::uint64_t seed, std::vector<bool> ranks = {});

  std::int64_t applied(const Action& action, int rank, std::int64_t duration_ns) const;
  double factor(const Action& action) const;

 private:
  const Variation& variation_;
  std::uint64_t seed_;
  std::vector<bool> ranks_;
  double mean_ppm_ = 0;  // of the quantiles
};

}  // namespace pipesim
