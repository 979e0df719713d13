// What to measure to choose between two layouts whose times are within their error.
//
// Pure; any thread.
#pragma once

#include <cstdint>

#include "sim/plan/finalists.h"
#include "sim/plan/space.h"

namespace pipesim {

// From the cheapest on.
enum class Measurement : std::uint8_t {
  none,       // they compute alike, and differ by their schedules
  block,      // one block of the model, on the devices of a tensor-parallel group
  replica,    // an iteration of one replica
  iteration,  // of all replicas
};

// The cheapest that tells them apart: each part of an iteration that it does not measure may be
// off by `error`, a fraction, and the difference that is predicted is more than that. Idle time
// follows from the times of blocks and messages. Expects that both have their candidates.
Measurement cheapest_measurement(const PlanPoint& one, const Finalist& its, const PlanPoint& other,
                                 const Finalist& others, double error);

}  // namespace pipesim
