// A sum dealt out to its parts, from several sums at once.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace pipesim {

// That so many of each part make a sum.
struct PartsSum {
  std::vector<double> counts;  // of each part
  double sum = 0;
};

// The parts, none below 0, that fit all sums best (least squares) and, of those,
// lie nearest to `usual` in proportion, once that is scaled to the sums.
std::vector<double> deal_out(const std::vector<PartsSum>& sums, const std::vector<double>& usual);

}  // namespace pipesim
