// Quantiles of a sorted list. Plain functions.
#pragma once

#include <cstdint>
#include <vector>

namespace pipesim {

// The values below which a tenth, a half and nine tenths lie; all 0 of none.
struct Quantiles {
  std::int64_t p10 = 0;
  std::int64_t p50 = 0;
  std::int64_t p90 = 0;
  std::int64_t count = 0;
};
Quantiles quantiles_of(std::vector<std::int64_t> values);

}  // namespace pipesim
