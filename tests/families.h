// The shapes that tests try a family with.
#pragma once

#include <vector>

#include "sim/schedule/family.h"

namespace pipesim::testing {

// Chunks a rank: one to three, or the number that the family has.
inline std::vector<int> chunk_counts(const Family& family) {
  return family.many_chunks ? std::vector{1, 2, 3} : std::vector{family.default_chunks};
}

}  // namespace pipesim::testing
