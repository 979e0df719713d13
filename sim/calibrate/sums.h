// Divides sums among their parts, from several sums at once.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace pipesim {

// A sum, and how many of which parts make it up.
struct PartsSum {
  std::vector<std::pair<std::size_t, double>> counts;  // (part, how many of it), by part
  double sum = 0;
};

// The parts, none below 0, that fit all sums best (least squares) and, among those, are nearest to
// `usual` in proportion, once that is scaled to the sums. Takes time linear in the sums but cubic
// in the largest group of parts that share sums: throws an input error if a group has more than
// 256.
std::vector<double> deal_out(const std::vector<PartsSum>& sums, const std::vector<double>& usual);

}  // namespace pipesim
