// Clocks put right by messages: none arrives before it was sent.
//
// Where each rank's times come from a clock of its own, and these are related
// only up to an uncertainty, a message may seem to arrive too early. Shifting
// whole clocks mends that and changes no time within a rank. Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace pipesim {

// Of each ordered pair of clocks, the least time that any message took.
class LeastTransfers {
 public:
  explicit LeastTransfers(int clocks);

  void add(int from, int to, std::int64_t took_ns);

  int clocks() const { return clocks_; }
  // Nothing where no message was seen; of a clock to itself never.
  std::optional<std::int64_t> took_ns(int from, int to) const;

 private:
  std::size_t place(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(clocks_) +
           static_cast<std::size_t>(to);
  }

  int clocks_;
  std::vector<std::optional<std::int64_t>> took_ns_;
};

// The shift x of each clock: of all x >= 0 with
//
//   took(a, b) + x_b - x_a >= least_ns - allowance   for all pairs a, b,
//
// the least, which is the least for every clock at once. The allowance is 0
// where that has a solution. Where it has none, since around some cycle of
// clocks messages take too little together, it is the smallest that has one.
struct CausalShifts {
  std::vector<std::int64_t> shift_ns;
  std::int64_t allowance_ns = 0;
};
CausalShifts causal_shifts(const LeastTransfers& least, std::int64_t least_ns = 0);

}  // namespace pipesim
