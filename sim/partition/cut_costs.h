// The cost of a layout, from prefix sums over the layers.
//
// Cuts say where stages begin: cuts[b] layers are before stage b, none before stage 0,
// and cuts[stages] are all. Keeps a reference to its problem. Const; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/partition/bottleneck.h"
#include "sim/partition/index.h"

namespace pipesim {

using Cuts = std::vector<int>;

Cuts cuts_of(const std::vector<int>& layout);
std::vector<int> layout_of(const Cuts& cuts);

__extension__ using Squares = unsigned __int128;  // of nanoseconds

// The smaller the better, in this order.
struct LayoutCost {
  std::int64_t missing_bytes = 0;  // of the rank that lacks most
  std::int64_t ns = 0;             // the bottleneck
  Squares squares = 0;             // of the ranks' times, summed

  auto operator<=>(const LayoutCost&) const = default;
};

// The ways between two ranks. Of each boundary between them one has the forward
// messages and the other the backward ones: they are occupied for as long.
struct Direction {
  int rank = 0;
  int other = 0;  // the larger
  std::vector<int> cuts;
};

class CutCosts {
 public:
  explicit CutCosts(const BottleneckProblem& problem);

  const Placement& placement() const { return problem_.placement; }
  int layers() const { return problem_.layers(); }
  int stages() const { return placement().stages(); }
  int ranks() const { return placement().ranks(); }

  // Prefix sums: sums[l] of the first l layers.
  struct Sums {
    std::vector<std::int64_t> ns, state_bytes, activation_bytes, residue_bytes;
  };
  const Sums& sums() const { return sums_; }
  const std::vector<Direction>& ways() const { return ways_; }
  // One or more; without any activations where the problem has none.
  const std::vector<HeldChunks>& moments_of(int rank) const { return moments_[index(rank)]; }

  bool has_caps() const { return !problem_.memory_caps.empty(); }
  std::int64_t cap_of(int rank) const { return problem_.memory_caps[index(rank)]; }
  // Over a rank's stages together.
  std::int64_t beside_ns(int rank) const { return beside_ns_[index(rank)]; }
  std::int64_t transfer_ns(int cut, int position) const {
    if (problem_.transfer_ns.empty()) return 0;
    return problem_.transfer_ns[index(cut) - 1][index(position) - 1];
  }

  std::int64_t rank_ns(const Cuts& cuts, int rank) const;
  std::int64_t memory_bytes(const Cuts& cuts, int rank) const;
  // 0 where it fits.
  std::int64_t missing_bytes(const Cuts& cuts, int rank) const;
  // The memory of a chunk's layers from `begin` to `end` at a moment, with their states.
  std::int64_t held_bytes(const HeldChunks& moment, int chunk, int begin, int end) const;
  // A rank's largest layer at the rank's peak.
  int largest_layer(const Cuts& cuts, int rank) const;
  LayoutCost cost_of(const Cuts& cuts) const;

  // No layout's bottleneck is less, or more.
  std::int64_t least_ns() const;
  std::int64_t max_ns() const;
  // What is missing with these cuts, which do not fit.
  Shortfall shortfall_of(const Cuts& cuts) const;

 private:
  bool could_take(std::int64_t ns, const std::vector<std::int64_t>& smallest) const;

  const BottleneckProblem& problem_;
  Sums sums_;
  std::vector<std::int64_t> beside_ns_;
  std::vector<Direction> ways_;
  std::vector<std::vector<HeldChunks>> moments_;
};

}  // namespace pipesim
