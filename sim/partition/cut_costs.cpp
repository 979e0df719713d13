#include "sim/partition/cut_costs.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <utility>

namespace pipesim {
namespace {

std::vector<std::int64_t> sums_before(const std::vector<std::int64_t>& values, int layers) {
  assert(values.empty() || values.size() == static_cast<std::size_t>(layers));
  std::vector<std::int64_t> sums{0};
  sums.resize(static_cast<std::size_t>(layers) + 1);
  for (std::size_t l = 0; l < values.size(); ++l) {
    assert(values[l] >= 0);
    sums[l + 1] = sums[l] + values[l];
  }
  return sums;
}

std::int64_t between(const std::vector<std::int64_t>& sums, int begin, int end) {
  return sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(begin)];
}

}  // namespace

Cuts cuts_of(const std::vector<int>& layout) {
  Cuts cuts{0};
  for (const int layers : layout) cuts.push_back(cuts.back() + layers);
  return cuts;
}

std::vector<int> layout_of(const Cuts& cuts) {
  std::vector<int> layout;
  for (std::size_t b = 1; b < cuts.size(); ++b) layout.push_back(cuts[b] - cuts[b - 1]);
  return layout;
}

CutCosts::CutCosts(const BottleneckProblem& problem) : problem_(problem) {
  sums_ = {sums_before(problem.layer_ns, layers()), sums_before(problem.state_bytes, layers()),
           sums_before(problem.activation_bytes, layers()),
           sums_before(problem.residue_bytes, layers())};
  assert(problem.stage_ns.empty() || problem.stage_ns.size() == index(stages()));
  assert(problem.transfer_ns.empty() || problem.transfer_ns.size() == index(stages()) - 1);
  assert(problem.memory_caps.empty() || problem.memory_caps.size() == index(ranks()));
  assert(problem.moments.empty() || problem.moments.size() == index(ranks()));
  beside_ns_.resize(index(ranks()));
  std::map<std::pair<int, int>, std::vector<int>> cuts_between;
  for (int stage = 0; stage < stages(); ++stage) {
    const int rank = placement().rank_of(stage);
    if (!problem.stage_ns.empty()) beside_ns_[index(rank)] += problem.stage_ns[index(stage)];
    if (stage == 0 || placement().rank_of(stage - 1) == rank) continue;
    cuts_between[std::minmax(rank, placement().rank_of(stage - 1))].push_back(stage);
  }
  if (!problem.transfer_ns.empty()) {
    for (auto& [ranks, cuts] : cuts_between) {
      ways_.push_back({ranks.first, ranks.second, std::move(cuts)});
    }
  }
  moments_ = problem.moments;
  moments_.resize(index(ranks()));
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::size_t chunks = placement().stages_of(rank).size();
    if (moments_[index(rank)].empty()) {
      moments_[index(rank)].push_back({std::vector<int>(chunks), std::vector<int>(chunks)});
    }
  }
}

std::int64_t CutCosts::rank_ns(const Cuts& cuts, int rank) const {
  std::int64_t ns = beside_ns(rank);
  for (const int stage : placement().stages_of(rank)) {
    ns += between(sums_.ns, cuts[index(stage)], cuts[index(stage) + 1]);
  }
  return ns;
}

std::int64_t CutCosts::held_bytes(const HeldChunks& moment, int chunk, int begin, int end) const {
  return between(sums_.state_bytes, begin, end) +
         moment.activations[index(chunk)] * between(sums_.activation_bytes, begin, end) +
         moment.residues[index(chunk)] * between(sums_.residue_bytes, begin, end);
}

std::int64_t CutCosts::memory_bytes(const Cuts& cuts, int rank) const {
  std::int64_t most = 0;
  for (const HeldChunks& moment : moments_of(rank)) {
    std::int64_t bytes = 0;
    for (const int stage : placement().stages_of(rank)) {
      bytes += held_bytes(moment, placement().chunk_of(stage), cuts[index(stage)],
                          cuts[index(stage) + 1]);
    }
    most = std::max(most, bytes);
  }
  return most;
}

std::int64_t CutCosts::missing_bytes(const Cuts& cuts, int rank) const {
  if (!has_caps()) return 0;
  return std::max<std::int64_t>(0, memory_bytes(cuts, rank) - cap_of(rank));
}

LayoutCost CutCosts::cost_of(const Cuts& cuts) const {
  LayoutCost cost;
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::int64_t ns = rank_ns(cuts, rank);
    cost.ns = std::max(cost.ns, ns);
    cost.squares += static_cast<Squares>(ns) * static_cast<Squares>(ns);
    cost.missing_bytes = std::max(cost.missing_bytes, missing_bytes(cuts, rank));
  }
  for (const Direction& way : ways_) {
    std::int64_t ns = 0;
    for (const int cut : way.cuts) ns += transfer_ns(cut, cuts[index(cut)]);
    cost.ns = std::max(cost.ns, ns);
  }
  return cost;
}

std::int64_t CutCosts::max_ns() const {
  std::int64_t most = sums_.ns.back();
  for (const std::int64_t ns : beside_ns_) most += ns;
  for (const Direction& way : ways_) {
    std::int64_t sum = 0;
    for (const int cut : way.cuts) {
      std::int64_t largest = 0;
      for (int at = cut; at <= layers() - (stages() - cut); ++at) {
        largest = std::max(largest, transfer_ns(cut, at));
      }
      sum += largest;
    }
    most = std::max(most, sum);
  }
  return most;
}

// Whether the ranks could hold all layers within `ns`, if each could choose: all but
// the first layer and the last, which lie where the first stage and the last do.
// `smallest`: what the smallest of the others take, summed: [l] of l layers.
bool CutCosts::could_take(std::int64_t ns, const std::vector<std::int64_t>& smallest) const {
  std::int64_t taken = 0;
  for (int rank = 0; rank < ranks(); ++rank) {
    std::int64_t room = ns - beside_ns(rank);
    int own = 0;
    if (rank == placement().rank_of(0)) {
      room -= between(sums_.ns, 0, 1);
      ++own;
    }
    if (rank == placement().rank_of(stages() - 1) && layers() > 1) {
      room -= between(sums_.ns, layers() - 1, layers());
      ++own;
    }
    if (room < 0) return false;
    own += static_cast<int>(std::ranges::upper_bound(smallest, room) - smallest.begin()) - 1;
    if (own < static_cast<int>(placement().stages_of(rank).size())) return false;
    taken += own;
  }
  return taken >= layers();
}

std::int64_t CutCosts::least_ns() const {
  std::int64_t all = sums_.ns.back();
  for (const std::int64_t ns : beside_ns_) all += ns;
  std::int64_t least = (all + ranks() - 1) / ranks();
  least = std::max(least, std::ranges::max(problem_.layer_ns) + std::ranges::min(beside_ns_));
  for (const Direction& way : ways_) {
    std::int64_t sum = 0;
    for (const int cut : way.cuts) {
      std::int64_t smallest = transfer_ns(cut, cut);
      for (int at = cut; at <= layers() - (stages() - cut); ++at) {
        smallest = std::min(smallest, transfer_ns(cut, at));
      }
      sum += smallest;
    }
    least = std::max(least, sum);
  }
  std::vector<std::int64_t> others;
  if (layers() > 2) others.assign(problem_.layer_ns.begin() + 1, problem_.layer_ns.end() - 1);
  std::ranges::sort(others);
  const std::vector<std::int64_t> smallest = sums_before(others, static_cast<int>(others.size()));
  for (std::int64_t most = max_ns(); least < most;) {
    const std::int64_t middle = least + (most - least) / 2;
    if (could_take(middle, smallest)) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  return least;
}

int CutCosts::largest_layer(const Cuts& cuts, int rank) const {
  const std::int64_t fullest = memory_bytes(cuts, rank);
  int largest = 0;
  for (const HeldChunks& moment : moments_of(rank)) {
    std::int64_t bytes = 0;
    std::int64_t most = -1;
    for (const int stage : placement().stages_of(rank)) {
      const int chunk = placement().chunk_of(stage);
      for (int layer = cuts[index(stage)]; layer < cuts[index(stage) + 1]; ++layer) {
        const std::int64_t own = held_bytes(moment, chunk, layer, layer + 1);
        bytes += own;
        if (own <= most) continue;
        most = own;
        largest = layer;
      }
    }
    if (bytes == fullest) break;
  }
  return largest;
}

Shortfall CutCosts::shortfall_of(const Cuts& cuts) const {
  Shortfall shortfall;
  shortfall.layout = layout_of(cuts);
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::int64_t missing = missing_bytes(cuts, rank);
    if (missing <= shortfall.bytes) continue;
    shortfall.rank = rank;
    shortfall.bytes = missing;
  }
  shortfall.layer = largest_layer(cuts, shortfall.rank);
  return shortfall;
}

}  // namespace pipesim
