// The best of all layouts within limits, found rank by rank.
//
// A rank's cost depends on the cuts around its stages, a route's cost on the cuts
// between its ranks. So the sweep takes one rank after the other, and remembers of those
// taken only the open cuts: those between a rank that was
// taken and one that was not. Only the best choice with the same open cuts is kept.
// One stage per rank has one open cut, two chunks in a V two, V chunks in a loop 2V - 1.
//
// With n layers, S stages, P ranks and at most w layers that a stage can have within the
// limits, one stage per rank takes O(S n w) steps; two chunks in a V O(P n^2 w^2), in a
// loop O(P n^3 w^2). Far fewer if limits are tight: the remaining layers must fit on the
// remaining ranks. Memory: every rank's states. Pure; any thread.
#pragma once

#include <cstdint>

#include "sim/partition/cut_costs.h"
#include "traces/base/budget.h"

namespace pipesim {

// The objective of a sweep.
enum class Aim { missing_bytes, ns, squares };

struct SweepLimits {
  Aim aim = Aim::ns;
  LayoutCost most;  // that is allowed, each by itself; squares count where they are the aim
  // The range of each cut, inclusive, or empty: anywhere.
  Cuts lowest = {};
  Cuts highest = {};
};

struct Swept {
  bool to_the_end = true;  // false: it ran out of steps or time, and says nothing
  Cuts cuts = {};          // empty: no layout is within the limits
};

// Takes from `steps` as many as it needs, at most all. Of equally good layouts it finds
// deterministic; with one stage per rank the lexicographically first.
Swept sweep(const CutCosts& costs, const SweepLimits& limits, std::int64_t& steps,
            const Budget* budget);

}  // namespace pipesim
