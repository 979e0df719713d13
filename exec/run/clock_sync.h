// The relation of ranks' clocks to rank 0's, measured by messages.
// Ranks on one host share a clock, and nothing is measured between them. For any other clock the
// lowest rank that has it asks rank 0 for its time, repeatedly, once before the first iteration and
// once after the last; a line through both readings relates all times of the run. All ranks call
// the functions, outside of iterations. Results are plain values, the same on every rank.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/run/clock.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

// For each rank, the lowest rank whose clock it shares, possibly itself. Ranks share a clock if the
// same kernel, since the same boot, gives both the same time.
using SharedClocks = std::vector<int>;
SharedClocks find_shared_clocks(Transport& transport, const Clock& clock);
bool all_share_one(const SharedClocks& clocks);

// A clock showed `own_ns` when rank 0's showed `first_ns`, give or take the uncertainty.
struct ClockReading {
  std::int64_t own_ns = 0;
  std::int64_t first_ns = 0;
  std::int64_t uncertainty_ns = 0;
};

// By rank. Cristian's algorithm (Distributed Computing 3, 1989), also the core of NTP: a rank notes
// t0, asks, gets rank 0's time T, and notes t1. T was shown at some instant between t0 and t1, so
// (t0 + t1) / 2 is wrong by at most half of t1 - t0, however different the two directions are. The
// shortest of up to 200 round trips counts, or as many as 50 ms allow.
std::vector<ClockReading> read_clocks(Transport& transport, const Clock& clock,
                                      const SharedClocks& clocks);

// From a clock to rank 0's, by a line through two readings:
//
//   to_first(t) = t + o + (t - own_start) g / e,  o = first_start - own_start,
//   e = own_end - own_start,  g = (first_end - first_start) - e
//
// It never decreases. If both clocks are steady in between, its error at any
// time between the readings lies between those at the readings.
class ClockRelation {
 public:
  ClockRelation() = default;  // rank 0's own clock
  ClockRelation(const ClockReading& start, const ClockReading& end);

  std::int64_t to_first(std::int64_t own_ns) const;

  // The addition to the clock's time at the start, as in NTP: negative if the clock is ahead of
  // rank 0's.
  std::int64_t offset_ns() const { return start_.first_ns - start_.own_ns; }
  // How much rank 0's clock gains on it in 10^9 of its nanoseconds.
  std::int64_t drift_ppb() const;
  // The largest error of to_first() between the readings, without the shift.
  std::int64_t uncertainty_ns() const { return uncertainty_ns_; }

  // Added by to_first() so that nothing arrives before it was sent.
  void set_shift(std::int64_t shift_ns) { shift_ns_ = shift_ns; }
  std::int64_t shift_ns() const { return shift_ns_; }

 private:
  ClockReading start_;
  std::int64_t elapsed_ns_ = 1;
  std::int64_t gained_ns_ = 0;
  std::int64_t uncertainty_ns_ = 0;
  std::int64_t shift_ns_ = 0;
};

// By rank, from read_clocks() at the start and at the end.
std::vector<ClockRelation> relate_clocks(const std::vector<ClockReading>& start,
                                         const std::vector<ClockReading>& end,
                                         const SharedClocks& clocks);

}  // namespace pipesim::exec
