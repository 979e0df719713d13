#include "traces/print/row_shares.h"

#include <algorithm>

namespace pipesim {

void RowShares::add(std::size_t place, double from, double to, double part) {
  while (from < to) {
    const auto column = std::min(columns_.size() - 1, static_cast<std::size_t>(from));
    const double next = std::min(to, static_cast<double>(column) + 1);
    columns_[column][place] += (next - from) * part;
    if (next <= from) break;
    from = next;
  }
}

}  // namespace pipesim
