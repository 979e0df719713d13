#include "traces/causality.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/base/text.h"

namespace pipesim {
namespace {

struct Edge {
  std::size_t from, to;
  std::int64_t took_ns;
};

// Edges to later clocks in their order, then those to earlier ones in the opposite order: one round
// follows many of either kind along a path.
std::vector<Edge> edges_of(const LeastTransfers& least) {
  std::vector<Edge> edges;
  for (const auto& [pair, took_ns] : least.pairs()) {
    edges.push_back(
        {static_cast<std::size_t>(pair.first), static_cast<std::size_t>(pair.second), took_ns});
  }
  const auto earlier = std::stable_partition(edges.begin(), edges.end(),
                                             [](const Edge& edge) { return edge.from < edge.to; });
  std::reverse(earlier, edges.end());
  return edges;
}

// Whether some clock waits for itself.
bool has_cycle(const std::vector<std::size_t>& waits_for, std::size_t none) {
  std::vector<std::size_t> seen(waits_for.size(), none);  // reached from which clock
  for (std::size_t start = 0; start < seen.size(); ++start) {
    std::size_t at = start;
    while (at != none && seen[at] == none) {
      seen[at] = start;
      at = waits_for[at];
    }
    if (at != none && seen[at] == start) return true;
  }
  return false;
}

// Longest paths from a source with an edge of 0 to each clock; each pair is an edge of the amount
// that it lacks (Bellman and Ford; the order of edges is Yen's). Returns the least solution, or
// nothing if a cycle lacks something.
std::optional<std::vector<std::int64_t>> least_shifts(const std::vector<Edge>& edges,
                                                      std::size_t clocks, std::int64_t least_ns) {
  std::vector<std::int64_t> shifts(clocks, 0);
  const std::size_t none = clocks;
  std::vector<std::size_t> waits_for(clocks, none);  // the clock that a shift comes from
  for (;;) {
    bool changed = false;
    for (const Edge& edge : edges) {
      const std::int64_t needed = shifts[edge.from] + least_ns - edge.took_ns;
      if (needed <= shifts[edge.to]) continue;
      shifts[edge.to] = needed;
      waits_for[edge.to] = edge.from;
      changed = true;
    }
    if (!changed) return shifts;
    if (has_cycle(waits_for, none)) return std::nullopt;
  }
}

}  // namespace

void LeastTransfers::add(int from, int to, std::int64_t took_ns) {
  if (from == to) return;
  std::int64_t& least = took_ns_.try_emplace({from, to}, took_ns).first->second;
  least = std::min(least, took_ns);
}

std::optional<std::int64_t> LeastTransfers::took_ns(int from, int to) const {
  const auto found = took_ns_.find({from, to});
  return found == took_ns_.end() ? std::nullopt : std::optional(found->second);
}

CausalShifts causal_shifts(const LeastTransfers& least, std::int64_t least_ns) {
  const std::vector<Edge> edges = edges_of(least);
  const auto clocks = static_cast<std::size_t>(least.clocks());
  // The worst pair's lack is always enough: then no shift is needed.
  std::int64_t enough = 0;
  for (const Edge& edge : edges) enough = std::max(enough, least_ns - edge.took_ns);
  std::int64_t smallest = 0;
  auto shifts = least_shifts(edges, clocks, least_ns);
  for (std::int64_t most = enough; !shifts && smallest < most;) {
    const std::int64_t middle = smallest + (most - smallest) / 2;
    if (least_shifts(edges, clocks, least_ns - middle)) {
      most = middle;
    } else {
      smallest = middle + 1;
    }
  }
  if (!shifts) shifts = least_shifts(edges, clocks, least_ns - smallest);
  return {*shifts, smallest};
}

std::vector<std::int64_t> righting_shifts(const LeastTransfers& least, std::int64_t least_ns,
                                          std::string_view place, Warnings& warnings) {
  std::int64_t worst = 0;
  for (const auto& [pair, took_ns] : least.pairs()) worst = std::max(worst, least_ns - took_ns);
  if (worst == 0) return {};
  // No shift is larger than the lacks of a path together, which must fit in 64 bits.
  constexpr std::int64_t max_ns = std::int64_t{1} << 60;
  if (worst > max_ns / std::max(1, least.clocks())) {
    warnings.add(fmt::format("transfers that arrive up to {} before they were sent: clocks are "
                             "unrelated, and times of different ranks cannot be compared",
                             format_time(worst)),
                 place);
    return {};
  }
  CausalShifts shifts = causal_shifts(least, least_ns);
  const std::int64_t largest = std::ranges::max(shifts.shift_ns);
  if (largest > 0) {
    warnings.add(fmt::format("transfers that arrive before they were sent: clocks are shifted by "
                             "up to {}",
                             format_time(largest)),
                 place);
  }
  if (shifts.allowance_ns > 0) {
    warnings.add(fmt::format("transfers that arrive up to {} too early however clocks are shifted",
                             format_time(shifts.allowance_ns)),
                 place);
  }
  return largest > 0 ? std::move(shifts.shift_ns) : std::vector<std::int64_t>{};
}

}  // namespace pipesim
