// When each call of an input program runs.
// The host of each rank makes its calls one after the other; a stream runs its actions in order; a
// collective begins on all ranks once the last has reached it, and ends on each separately. Exact
// to the nanosecond, and the result depends only on the arguments. Memory and time are proportional
// to the number of calls. No shared state; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/input_pipeline/input_costs.h"
#include "traces/input_run.h"

namespace pipesim {

// Expects a program that find_fault() passes, and costs of as many ranks (else an input error).
// Fills in the run's spans, and its memory if the costs have it; the caller fills in what it is a
// run of.
InputRun simulate_input(const InputProgram& program, const InputCosts& costs);

// The time of one call.
struct InputCallTime {
  std::int64_t host_ns = 0;      // to call it; 0 for the host's own kinds
  std::int64_t duration_ns = 0;  // from its start to its end
};
// The same with times for each call, by rank and index, and no links.
InputRun replay_input(const InputProgram& program,
                      const std::vector<std::vector<InputCallTime>>& times);

}  // namespace pipesim
