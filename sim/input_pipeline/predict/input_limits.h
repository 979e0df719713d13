// What an input pipeline is limited by: what an iteration would take, were something free.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/input_pipeline/input_costs.h"
#include "traces/input_pipeline/input_run.h"

namespace pipesim {

// Kinds that a person would do something about together.
struct InputPart {
  std::string_view name;  // "the exchange of ids"
  std::vector<InputKind> kinds;
  bool is_host = false;  // what the host takes to call things, beside those kinds
};
const std::vector<InputPart>& input_parts();

struct InputLimit {
  const InputPart* part = nullptr;
  std::int64_t steady_iteration_ns = 0;  // were it free
  std::int64_t gain_ns = 0;              // next to now; never negative
};

// Of each part that takes any time, by what it gains, the most first. Simulates the program once a
// part.
std::vector<InputLimit> find_input_limits(const InputProgram& program, const InputCosts& costs,
                                          std::int64_t steady_iteration_ns);

// The same costs, with some kinds taking no time.
InputCosts with_free(InputCosts costs, const InputPart& part);

}  // namespace pipesim
