// A sum dealt out to its parts, from several sums at once.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace pipesim {

// That so many of some parts make a sum.
struct PartsSum {
  std::vector<std::pair<std::size_t, double>> counts;  // (part, how many of it), by part
  double sum = 0;
};

// The parts, none below 0, that fit all sums best (least squares) and, of those,
// lie nearest to `usual` in proportion, once that is scaled to the sums. Takes time in
// proportion to the sums but cubic in the largest group of parts that share sums: throws
// an input error where one has more than 256.
std::vector<double> deal_out(const std::vector<PartsSum>& sums, const std::vector<double>& usual);

}  // namespace pipesim
