// When each call of an input program runs.
//
// The host of each rank makes its calls one after the other; a stream runs what stands on it in
// order; a collective begins on all ranks once the last has come to it, and ends on each by
// itself. Exact to the nanosecond, and the result depends on the arguments alone. Memory and time
// are in proportion to the calls. Calls share nothing; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/input_pipeline/input_costs.h"
#include "traces/input_pipeline/input_run.h"

namespace pipesim {

// Expects a program that find_fault() passes, and costs of as many ranks (else an input error).
// Spans, and memory where the costs tell it, are the run's; what it is a run of is the caller's to
// fill in.
InputRun simulate_input(const InputProgram& program, const InputCosts& costs);

// What one call took.
struct InputCallTime {
  std::int64_t host_ns = 0;      // to call it; of the host's own kinds 0
  std::int64_t duration_ns = 0;  // from its start to its end
};
// The same with times of each call, by rank and place, and no links.
InputRun replay_input(const InputProgram& program,
                      const std::vector<std::vector<InputCallTime>>& times);

}  // namespace pipesim
