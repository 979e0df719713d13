// Clock correction by messages: none arrives before it was sent.
//
// If ranks have separate clocks, related only up to an uncertainty,
// a message may seem to arrive too early. Shifting
// whole clocks fixes that and changes no duration within a rank. Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/warnings.h"

namespace pipesim {

// For each ordered pair of clocks with a message, the shortest time of any. Holds
// those pairs only.
class LeastTransfers {
 public:
  explicit LeastTransfers(int clocks) : clocks_(clocks) {}

  void add(int from, int to, std::int64_t took_ns);

  int clocks() const { return clocks_; }
  // Nothing without a message; always for a clock and itself.
  std::optional<std::int64_t> took_ns(int from, int to) const;
  // By (from, to).
  const std::map<std::pair<int, int>, std::int64_t>& pairs() const { return took_ns_; }

 private:
  int clocks_;
  std::map<std::pair<int, int>, std::int64_t> took_ns_;
};

// The shift x of each clock: among all x >= 0 with
//
//   took(a, b) + x_b - x_a >= least_ns - allowance   for all pairs a, b,
//
// the least, which is the least for every clock at once. The allowance is 0
// if that has a solution. If it has none, because around some cycle of
// clocks messages take too little in total, it is the smallest that has one.
//
// If clocks send only to their neighbours, as in a pipeline, the time is proportional
// to the number of pairs.
struct CausalShifts {
  std::vector<std::int64_t> shift_ns;
  std::int64_t allowance_ns = 0;
};
CausalShifts causal_shifts(const LeastTransfers& least, std::int64_t least_ns = 0);

// The same for the clocks of a run that was read; warns of what is shifted, and of what no shift
// can put right. Empty if nothing is shifted. `place`: the run, for warnings.
std::vector<std::int64_t> righting_shifts(const LeastTransfers& least, std::int64_t least_ns,
                                          std::string_view place, Warnings& warnings);

}  // namespace pipesim
