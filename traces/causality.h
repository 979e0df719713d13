// Clocks put right by messages: none arrives before it was sent.
//
// Where each rank's times come from a clock of its own, and these are related
// only up to an uncertainty, a message may seem to arrive too early. Shifting
// whole clocks mends that and changes no time within a rank. Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace pipesim {

// Of each ordered pair of clocks that had a message, the least time that any took. Holds
// those pairs only.
class LeastTransfers {
 public:
  explicit LeastTransfers(int clocks) : clocks_(clocks) {}

  void add(int from, int to, std::int64_t took_ns);

  int clocks() const { return clocks_; }
  // Nothing where no message was seen; of a clock to itself never.
  std::optional<std::int64_t> took_ns(int from, int to) const;
  // By (from, to).
  const std::map<std::pair<int, int>, std::int64_t>& pairs() const { return took_ns_; }

 private:
  int clocks_;
  std::map<std::pair<int, int>, std::int64_t> took_ns_;
};

// The shift x of each clock: of all x >= 0 with
//
//   took(a, b) + x_b - x_a >= least_ns - allowance   for all pairs a, b,
//
// the least, which is the least for every clock at once. The allowance is 0
// where that has a solution. Where it has none, since around some cycle of
// clocks messages take too little together, it is the smallest that has one.
//
// Where clocks send to the next and the one before, as in a pipeline, this takes time in
// proportion to the pairs.
struct CausalShifts {
  std::vector<std::int64_t> shift_ns;
  std::int64_t allowance_ns = 0;
};
CausalShifts causal_shifts(const LeastTransfers& least, std::int64_t least_ns = 0);

}  // namespace pipesim
