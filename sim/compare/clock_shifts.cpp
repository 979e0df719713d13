#include "sim/compare/clock_shifts.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "sim/compare/wire_times.h"

namespace pipesim {
namespace {

// The least time that messages took on a way; of those that were seen as they came, where
// there are any.
struct Least {
  std::optional<std::int64_t> ns;
  bool is_seen = false;

  void add(std::int64_t took_ns, bool seen) {
    if (ns && is_seen && !seen) return;
    ns = ns && is_seen == seen ? std::min(*ns, took_ns) : took_ns;
    is_seen = seen;
  }
};
using LeastOfBoth = std::array<Least, 2>;                       // by either run
using LeastByWay = std::map<std::pair<int, int>, LeastOfBoth>;  // (from, to)

LeastByWay least_transfers(const Operations& operations) {
  LeastByWay ways;
  for (const Side side : both_sides) {
    for (OperationId id = 0; id < operations.size(); ++id) {
      const Occurrence& own = operations.sides[side][id];
      if (!own.exists() || !operations.transfers(id)) continue;
      ways[{own.rank, own.to_rank}][side].add(own.end_ns - own.sent_ns,
                                              !may_be_seen_late(operations, side, own));
    }
  }
  return ways;
}

// What two ranks' messages say of their clocks.
struct Pair {
  int one;
  int other;
  std::int64_t ahead_ns;     // the other's clock, of the one's
  std::int64_t mismatch_ns;  // what both directions together take too long, or too little
  bool is_off;
};

Pair compare_clocks(std::pair<int, int> ranks, const LeastOfBoth& there, const LeastOfBoth& back) {
  const std::int64_t expected_there = there[predicted_side].ns.value_or(0);
  const std::int64_t expected_back = back[predicted_side].ns.value_or(0);
  const Least& took_there = there[measured_side];
  const Least& took_back = back[measured_side];
  const std::int64_t more_there = *took_there.ns - expected_there;
  const std::int64_t more_back = *took_back.ns - expected_back;
  const std::int64_t ahead = (more_there - more_back) / 2;
  const std::int64_t mismatch = std::abs(more_there + more_back);
  // Something arrived before it was sent; or, as good as that, one direction
  // gains what the other loses, to a twentieth, and a good part of what was
  // expected.
  const bool impossible = *took_there.ns < 0 || *took_back.ns < 0;
  const bool opposite = ahead != 0 && mismatch <= std::abs(ahead) / 10 &&
                        std::abs(ahead) * 4 >= std::min(expected_there, expected_back);
  // What is less than its own uncertainty shows nothing.
  const bool shows = 2 * std::abs(ahead) > mismatch;
  // What was seen late says less than what was not.
  std::int64_t known_ahead = ahead;
  if (took_there.is_seen != took_back.is_seen) {
    known_ahead = took_there.is_seen ? more_there : -more_back;
  }
  return {ranks.first, ranks.second, known_ahead, mismatch, shows && (impossible || opposite)};
}

std::vector<Pair> compare_clocks(const Operations& operations) {
  std::vector<Pair> pairs;
  const LeastByWay ways = least_transfers(operations);
  for (const auto& [ranks, there] : ways) {
    if (ranks.first > ranks.second || !there[measured_side].ns) continue;
    const auto back = ways.find({ranks.second, ranks.first});
    if (back == ways.end() || !back->second[measured_side].ns) continue;
    pairs.push_back(compare_clocks(ranks, there, back->second));
  }
  return pairs;
}

}  // namespace

std::vector<ClockShift> find_clock_shifts(const Operations& operations, int ranks) {
  std::vector<ClockShift> shifts(static_cast<std::size_t>(ranks));
  std::vector<Pair> pairs = compare_clocks(operations);
  if (std::ranges::none_of(pairs, &Pair::is_off)) return shifts;

  // From pair to pair, those that contradict themselves least first.
  std::ranges::stable_sort(pairs, {}, &Pair::mismatch_ns);
  std::vector<std::vector<std::size_t>> pairs_of(shifts.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs_of[static_cast<std::size_t>(pairs[i].one)].push_back(i);
    pairs_of[static_cast<std::size_t>(pairs[i].other)].push_back(i);
  }
  std::vector<bool> known(shifts.size(), false);
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> next;
  const auto know = [&](std::size_t rank) {
    known[rank] = true;
    for (const std::size_t i : pairs_of[rank]) next.push(i);
  };
  for (std::size_t root = 0; root < shifts.size(); ++root) {
    if (known[root]) continue;
    know(root);
    while (!next.empty()) {
      const Pair& pair = pairs[next.top()];
      next.pop();
      const auto one = static_cast<std::size_t>(pair.one);
      const auto other = static_cast<std::size_t>(pair.other);
      if (known[one] && known[other]) continue;
      const std::size_t from = known[one] ? one : other;
      const std::size_t to = known[one] ? other : one;
      const std::int64_t ahead = pair.is_off ? pair.ahead_ns : 0;
      shifts[to].ahead_ns = shifts[from].ahead_ns + (to == other ? ahead : -ahead);
      shifts[to].uncertainty_ns = shifts[from].uncertainty_ns + pair.mismatch_ns / 2;
      know(to);
    }
  }
  // Counted from the clock in the middle, which is right unless most are wrong.
  std::vector<std::int64_t> sorted;
  for (const ClockShift& shift : shifts) sorted.push_back(shift.ahead_ns);
  std::ranges::sort(sorted);
  const std::int64_t middle = sorted[(sorted.size() - 1) / 2];
  for (ClockShift& shift : shifts) {
    shift.ahead_ns -= middle;
    if (shift.ahead_ns == 0) shift.uncertainty_ns = 0;
  }
  return shifts;
}

}  // namespace pipesim
