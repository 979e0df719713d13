#include "sim/input_pipeline/predict/input_limits.h"

#include <algorithm>

#include "sim/input_pipeline/calibrate_input.h"
#include "sim/input_pipeline/predict/simulate_input.h"

namespace pipesim {

const std::vector<InputPart>& input_parts() {
  using enum Kind;
  static const std::vector<InputPart> parts{
      {"taking and copying batches", {NEXT, COPY, PREPARE}},
      {"the exchange of ids", {SPLITS, READ, IDS}},
      {"rows: prefetch, lookup, update", {PREFETCH, LOOKUP, UPDATE}},
      {"the exchange of pooled rows", {OUTPUT, OUTPUT_BACKWARD}},
      {"the dense part", {BOTTOM, TOP, TOP_BACKWARD, BOTTOM_BACKWARD, DENSE_STEP, ZERO_GRAD}},
      {"the sums of dense gradients", {REDUCE_TOP, REDUCE_BOTTOM}},
      {"the host's calls", {}, true},
  };
  return parts;
}

InputCosts with_free(InputCosts costs, const InputPart& part) {
  for (int rank = 0; rank < costs.ranks(); ++rank) {
    for (const Kind kind : part.kinds) {
      costs.of(rank, kind).duration_ns = 0;
      costs.of(rank, kind).bytes = 0;
    }
    if (!part.is_host) continue;
    for (const Kind kind : input_kinds) {
      costs.of(rank, kind).host_ns = 0;
    }
  }
  return costs;
}

std::vector<InputLimit> find_input_limits(const InputProgram& program, const InputCosts& costs,
                                          std::int64_t steady_iteration_ns) {
  std::vector<InputLimit> limits;
  for (const InputPart& part : input_parts()) {
    const InputCosts changed = with_free(costs, part);
    if (changed.work == costs.work) continue;
    const std::int64_t steady = measure(simulate_input(program, changed)).steady_iteration_ns;
    limits.push_back({&part, steady, std::max<std::int64_t>(steady_iteration_ns - steady, 0)});
  }
  std::ranges::stable_sort(limits, std::greater(), &InputLimit::gain_ns);
  return limits;
}

InputRunLimits find_input_limits(const InputRun& run) {
  const InputCosts costs = calibrate_input(run).costs;
  const std::int64_t steady_ns = measure(simulate_input(run.program, costs)).steady_iteration_ns;
  return {steady_ns, find_input_limits(run.program, costs, steady_ns)};
}

}  // namespace pipesim
