// Many times of the same thing, and the one that represents them.
//
// One owner, one thread; results do not depend on the order of samples.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/provenance.h"

namespace pipesim {

class Samples {
 public:
  void add(std::int64_t value) { values_.push_back(value); }
  bool empty() const { return values_.empty(); }
  std::int64_t count() const { return static_cast<std::int64_t>(values_.size()); }

  // The mean of the middle 80 %: of n samples the n/10 least and the n/10 largest are left out, at
  // least one each if there are three or more. A pipeline adds times up, which calls for a mean,
  // but not for one that a few outliers distort. 0 if there are no samples.
  double typical() const;
  std::int64_t typical_ns() const;  // rounded, at least 0
  // The sample that a fraction of them do not exceed, by nearest rank.
  std::int64_t quantile(double fraction) const;
  Spread spread() const;  // of times; quantiles below 0 are 0

 private:
  std::vector<std::int64_t> sorted() const;

  std::vector<std::int64_t> values_;
};

}  // namespace pipesim
