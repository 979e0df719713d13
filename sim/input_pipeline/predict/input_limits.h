// What limits an input pipeline: how long an iteration would take if something were free.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/input_pipeline/input_costs.h"
#include "traces/input_run.h"

namespace pipesim {

// Kinds that one would optimize together.
struct InputPart {
  std::string_view name;  // "the exchange of ids"
  std::vector<Kind> kinds;
  bool is_host = false;  // the host's calls, in addition to those kinds
};
const std::vector<InputPart>& input_parts();

struct InputLimit {
  const InputPart* part = nullptr;
  std::int64_t steady_iteration_ns = 0;  // if it were free
  std::int64_t gain_ns = 0;              // saved by that; never negative
};

// For each part that takes any time, the largest gain first. Simulates the program once per part.
std::vector<InputLimit> find_input_limits(const InputProgram& program, const InputCosts& costs,
                                          std::int64_t steady_iteration_ns);

// Of a run that was recorded, by costs calibrated on it.
struct InputRunLimits {
  std::int64_t steady_iteration_ns = 0;  // by these costs
  std::vector<InputLimit> limits;
};
InputRunLimits find_input_limits(const InputRun& run);

// The same costs, with some kinds taking no time.
InputCosts with_free(InputCosts costs, const InputPart& part);

}  // namespace pipesim
