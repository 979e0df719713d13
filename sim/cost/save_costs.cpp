#include "sim/cost/save_costs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "traces/base/rate.h"

namespace pipesim {
namespace {

// The rest of a write, in nanoseconds of exclusive storage.
struct Write {
  std::size_t rank = 0;
  std::int64_t start_ns = 0;
  long double left_ns = 0;
};

// An end this little above a whole nanosecond counts as that nanosecond.
constexpr long double rounding_ns = 1e-6L;

}  // namespace

std::int64_t SaveCosts::storage_ns(std::int64_t rank_bytes) const {
  __extension__ using Wide = __int128;
  const Wide each =
      Wide{sync_ns} + (bytes_per_second ? occupied_ns(rank_bytes, *bytes_per_second) : 0);
  constexpr Wide longest = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(writers * each, longest));
}

std::int64_t SaveCosts::copy_ns(std::int64_t rank_bytes) const {
  return copy_bytes_per_second ? occupied_ns(rank_bytes, *copy_bytes_per_second) : 0;
}

std::int64_t SaveCosts::total_bytes() const {
  return writers * std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

std::vector<std::int64_t> written_ns(const SaveCosts& costs,
                                     std::span<const std::int64_t> starts_ns) {
  std::vector<std::int64_t> ends(starts_ns.begin(), starts_ns.end());
  std::vector<Write> waiting;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    waiting.push_back(
        {rank, starts_ns[rank], static_cast<long double>(costs.storage_ns(costs.bytes[rank]))});
  }
  std::ranges::stable_sort(waiting, std::greater(), &Write::start_ns);
  if (waiting.empty()) return ends;
  // Times count from the first start, to keep them small.
  const std::int64_t origin_ns = waiting.back().start_ns;
  const auto until = [&](const Write& write) {
    return static_cast<long double>(write.start_ns - origin_ns);
  };
  std::vector<Write> active;
  long double now = 0;
  while (!waiting.empty() || !active.empty()) {
    if (active.empty()) now = until(waiting.back());
    while (!waiting.empty() && until(waiting.back()) <= now) {
      active.push_back(waiting.back());
      waiting.pop_back();
    }
    const auto sharing = static_cast<long double>(active.size());
    const long double least = std::ranges::min_element(active, {}, &Write::left_ns)->left_ns;
    long double step = least * sharing;
    if (!waiting.empty()) step = std::min(step, until(waiting.back()) - now);
    now += step;
    for (Write& write : active) write.left_ns -= step / sharing;
    std::erase_if(active, [&](const Write& write) {
      if (write.left_ns > rounding_ns / sharing) return false;
      ends[write.rank] = origin_ns + static_cast<std::int64_t>(std::ceil(now - rounding_ns));
      return true;
    });
  }
  return ends;
}

std::vector<std::int64_t> save_ends_ns(const SaveCosts& costs,
                                       std::span<const std::int64_t> starts_ns) {
  std::vector<std::int64_t> ends = written_ns(costs, starts_ns);
  if (!ends.empty()) ends.front() = std::ranges::max(ends) + costs.publish_ns;
  return ends;
}

}  // namespace pipesim
