#include "traces/read/event_rows.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <tuple>
#include <vector>

namespace pipesim {
namespace {

// The end of the last slice on each row. Many rows are searched by a tree whose nodes know the
// latest and the earliest end below them.
class RowEnds {
 public:
  std::size_t size() const { return ends_.size(); }

  // The row below the lowest that ends then or later; the first if none does.
  std::size_t below_those_ending_from(std::int64_t time_ns) const {
    if (leaves_ == 0) {
      std::size_t row = size();
      while (row > 0 && ends_[row - 1] < time_ns) --row;
      return row;
    }
    if (latest_[1] < time_ns) return 0;
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (latest_[2 * node + 1] >= time_ns ? 1 : 0);
    return node - leaves_ + 1;
  }

  // From that row on, the first that ends then or earlier; size() if none does.
  std::size_t first_ending_by(std::int64_t time_ns, std::size_t row) const {
    if (leaves_ == 0) {
      while (row < size() && ends_[row] > time_ns) ++row;
      return row;
    }
    if (row == size()) return row;
    std::size_t node = leaves_ + row;
    while (earliest_[node] > time_ns) {
      while (node % 2 == 1) node /= 2;  // to the right one's left brother
      if (node == 0) return size();
      ++node;
    }
    while (node < leaves_) node = 2 * node + (earliest_[2 * node] <= time_ns ? 0 : 1);
    return node - leaves_;
  }

  // Sets the end of a row, or of a new one.
  void set(std::size_t row, std::int64_t end_ns) {
    if (row == size()) ends_.emplace_back();
    ends_[row] = end_ns;
    if (leaves_ == 0 && size() <= searched_one_by_one) return;
    if (size() > leaves_) {
      grow();
      return;
    }
    latest_[leaves_ + row] = earliest_[leaves_ + row] = end_ns;
    for (std::size_t node = (leaves_ + row) / 2; node > 0; node /= 2) update(node);
  }

 private:
  static constexpr std::size_t searched_one_by_one = 64;

  void update(std::size_t node) {
    latest_[node] = std::max(latest_[2 * node], latest_[2 * node + 1]);
    earliest_[node] = std::min(earliest_[2 * node], earliest_[2 * node + 1]);
  }

  void grow() {
    leaves_ = std::bit_ceil(2 * size());
    latest_.assign(2 * leaves_, std::numeric_limits<std::int64_t>::min());
    earliest_.assign(2 * leaves_, std::numeric_limits<std::int64_t>::max());
    std::ranges::copy(ends_, latest_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    std::ranges::copy(ends_, earliest_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (std::size_t node = leaves_; node-- > 1;) update(node);
  }

  std::vector<std::int64_t> ends_;
  // Node n is above 2n and 2n + 1; the rows are at leaves_ and later. Empty while rows are few.
  std::size_t leaves_ = 0;
  std::vector<std::int64_t> latest_, earliest_;
};

}  // namespace

int lay_out(LargeVector<Slice>& slices, LargeVector<Slice>& rest, int most) {
  const auto is_before = [](const Slice& a, const Slice& b) {
    return std::tuple(a.start_ns, b.end_ns, a.row) < std::tuple(b.start_ns, a.end_ns, b.row);
  };
  if (!std::ranges::is_sorted(slices, is_before)) std::ranges::stable_sort(slices, is_before);
  RowEnds ends;
  std::size_t kept = 0;
  for (const Slice& slice : slices) {
    // Below the lowest that contains it: slices that start later have not been placed. A slice that
    // ends when it starts never contains it, even if it has no length.
    const std::int64_t held_until = std::max(slice.end_ns, slice.start_ns + 1);
    const std::size_t row =
        ends.first_ending_by(slice.start_ns, ends.below_those_ending_from(held_until));
    if (row == static_cast<std::size_t>(most)) {
      rest.push_back(slice);
      rest.back().row = 0;
      continue;
    }
    ends.set(row, slice.end_ns);
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
