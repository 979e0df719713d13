// The best of all layouts within limits, found rank by rank.
//
// What a rank takes depends on the cuts beside its stages, what a way takes on the cuts
// between its ranks. So the sweep takes one rank after the other, and remembers of those
// it has taken nothing but where the open cuts lie: the cuts between a rank that was
// taken and one that was not. Of all choices with the same open cuts the best goes on.
// One stage a rank has one open cut, two chunks in a V two, V chunks in a loop 2V - 1.
//
// With n layers, S stages, P ranks and at most w layers that a stage can have within the
// limits, one stage a rank takes O(S n w) steps; two chunks in a V O(P n^2 w^2), in a
// loop O(P n^3 w^2). Far fewer where limits are close: what is left must fit on the
// ranks that are left. Memory: every rank's states. Pure; any thread.
#pragma once

#include <cstdint>

#include "sim/plan/cut_costs.h"

namespace pipesim {

// What a sweep makes as small as can be.
enum class Aim { missing_bytes, ns, squares };

struct SweepLimits {
  Aim aim = Aim::ns;
  LayoutCost most;  // that is allowed, each by itself; squares count where they are the aim
  // Where each cut may lie, with both ends, or empty: anywhere.
  Cuts lowest = {};
  Cuts highest = {};
};

struct Swept {
  bool to_the_end = true;  // false: it ran out of steps, and says nothing
  Cuts cuts = {};          // empty: no layout is within the limits
};

// Takes from `steps` as many as it needs, at most all. Of equally good layouts it finds
// always the same, with one stage a rank the lexicographically first.
Swept sweep(const CutCosts& costs, const SweepLimits& limits, std::int64_t& steps);

}  // namespace pipesim
