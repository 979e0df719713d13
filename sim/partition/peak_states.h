// Peak memory of ranks, counted in microbatches.
//
// The order of a schedule alone decides how many activations and residues of each
// chunk a rank holds at once; their bytes depend on the layers of its
// stages. So the moments of a schedule are found once, and weighted for
// every layout. Plain values; any thread.
#pragma once

#include <vector>

#include "sim/schedule/schedule.h"

namespace pipesim {

// The number of microbatches whose activations a rank holds, from the start of F to the
// end of B or I, and residues, from the end of I to the end of W; by chunk.
struct HeldChunks {
  std::vector<int> activations;
  std::vector<int> residues;

  bool operator==(const HeldChunks&) const = default;
};

// Each rank's moments that none of its others exceeds or equals in every
// count: whatever a chunk's bytes, the rank is fullest at one of them. The one
// with the fewest activations of the first chunk comes first, and so on. Expects
// a schedule that find_fault() passes.
std::vector<std::vector<HeldChunks>> fullest_moments(const Schedule& schedule);

}  // namespace pipesim
