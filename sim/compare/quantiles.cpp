#include "sim/compare/quantiles.h"

#include <algorithm>

namespace pipesim {

Quantiles quantiles_of(std::vector<std::int64_t> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t last = values.size() - 1;
  return {values[last / 10], values[last / 2], values[last * 9 / 10],
          static_cast<std::int64_t>(values.size())};
}

}  // namespace pipesim
