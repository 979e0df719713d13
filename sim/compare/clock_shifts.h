// Clock offsets of ranks, estimated from messages in both directions.
//
// A clock that is ahead by x makes messages to its rank seem to take x more and
// those from it x less. With a prediction's message times as the true
// ones, each pair of ranks that exchange messages both ways shows the offset between their
// clocks (see traces/METRICS.md, "Clocks that are off"). Plain values;
// any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/compare/operations.h"

namespace pipesim {

struct ClockShift {
  std::int64_t ahead_ns = 0;        // of what most ranks agree on; 0 where no clock is off
  std::int64_t uncertainty_ns = 0;  // of that, by how far the two directions contradict each other
};

// For each rank of the measured run.
std::vector<ClockShift> find_clock_shifts(const Operations& operations, int ranks);

}  // namespace pipesim
