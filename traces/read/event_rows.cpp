#include "traces/read/event_rows.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

namespace pipesim {

int lay_out(LargeVector<Slice>& slices, LargeVector<Slice>& rest, int most) {
  const auto is_before = [](const Slice& a, const Slice& b) {
    return std::tuple(a.start_ns, b.end_ns, a.row) < std::tuple(b.start_ns, a.end_ns, b.row);
  };
  if (!std::ranges::is_sorted(slices, is_before)) std::ranges::stable_sort(slices, is_before);
  std::vector<std::int64_t> ends;  // of the last slice on each row
  std::size_t kept = 0;
  for (const Slice& slice : slices) {
    // Below the lowest that holds it: slices that start later have not been placed.
    std::size_t row = ends.size();
    while (row > 0 && (ends[row - 1] < slice.end_ns || ends[row - 1] == slice.start_ns)) --row;
    while (row < ends.size() && ends[row] > slice.start_ns) ++row;
    if (row == static_cast<std::size_t>(most)) {
      rest.push_back(slice);
      rest.back().row = 0;
      continue;
    }
    if (row == ends.size()) ends.emplace_back();
    ends[row] = slice.end_ns;
    Slice& placed = slices[kept++];
    placed = slice;
    placed.row = static_cast<std::uint16_t>(row);
  }
  slices.erase(slices.begin() + static_cast<std::ptrdiff_t>(kept), slices.end());
  return static_cast<int>(ends.size());
}

void sort_by_row(std::span<const Slice> slices, int rows, LargeVector<Slice>& to) {
  if (rows <= 1) {
    to.insert(to.end(), slices.begin(), slices.end());
    return;
  }
  std::vector<std::size_t> next(static_cast<std::size_t>(rows) + 1, to.size());
  for (const Slice& slice : slices) ++next[slice.row + std::size_t{1}];
  for (std::size_t row = 1; row < next.size(); ++row) next[row] += next[row - 1] - to.size();
  to.resize(to.size() + slices.size());
  for (const Slice& slice : slices) to[next[slice.row]++] = slice;
}

}  // namespace pipesim
