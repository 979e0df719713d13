#include "traces/causality.h"

#include <algorithm>

namespace pipesim {
namespace {

// Longest paths from a source that reaches each clock by 0, where a pair is an
// edge of what it lacks (Bellman and Ford): the least solution, or nothing where
// a cycle lacks something.
std::optional<std::vector<std::int64_t>> least_shifts(const LeastTransfers& least,
                                                      std::int64_t least_ns) {
  const int clocks = least.clocks();
  std::vector<std::int64_t> shifts(static_cast<std::size_t>(clocks), 0);
  for (int round = 0; round <= clocks; ++round) {
    bool changed = false;
    for (int from = 0; from < clocks; ++from) {
      for (int to = 0; to < clocks; ++to) {
        const auto took = least.took_ns(from, to);
        if (!took) continue;
        const std::int64_t needed = shifts[static_cast<std::size_t>(from)] + least_ns - *took;
        std::int64_t& shift = shifts[static_cast<std::size_t>(to)];
        if (needed <= shift) continue;
        shift = needed;
        changed = true;
      }
    }
    if (!changed) return shifts;
  }
  return std::nullopt;
}

}  // namespace

LeastTransfers::LeastTransfers(int clocks) : clocks_(clocks), took_ns_(place(clocks, 0)) {}

void LeastTransfers::add(int from, int to, std::int64_t took_ns) {
  if (from == to) return;
  auto& least = took_ns_[place(from, to)];
  least = std::min(least.value_or(took_ns), took_ns);
}

std::optional<std::int64_t> LeastTransfers::took_ns(int from, int to) const {
  return took_ns_[place(from, to)];
}

CausalShifts causal_shifts(const LeastTransfers& least, std::int64_t least_ns) {
  // What the worst pair lacks is always enough: then no shift is needed.
  std::int64_t enough = 0;
  for (int from = 0; from < least.clocks(); ++from) {
    for (int to = 0; to < least.clocks(); ++to) {
      enough = std::max(enough, least_ns - least.took_ns(from, to).value_or(least_ns));
    }
  }
  std::int64_t smallest = 0;
  if (!least_shifts(least, least_ns)) {
    for (std::int64_t most = enough; smallest < most;) {
      const std::int64_t middle = smallest + (most - smallest) / 2;
      if (least_shifts(least, least_ns - middle)) {
        most = middle;
      } else {
        smallest = middle + 1;
      }
    }
  }
  return {*least_shifts(least, least_ns - smallest), smallest};
}

}  // namespace pipesim
