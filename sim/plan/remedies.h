// What else a training could do to need less memory, each tried by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/estimate/cost_model.h"
#include "sim/engine/prediction.h"
#include "sim/schedule/schedule.h"

namespace pipesim {

struct Remedy {
  std::string what;  // "full recomputation"
  std::int64_t makespan_ns = 0;
  std::int64_t peak_memory_bytes = 0;
};

// Recomputation, fused attention, sequence parallelism, ZeRO, as far as the
// training can have them and does not; those that fit into `memory_bytes`
// first, the fastest of them first, then those that need least. Simulates the
// schedule once for each. Pure; any thread.
std::vector<Remedy> try_remedies(const CostModel& model, const PipelineShape& shape,
                                 const Schedule& schedule, const Transfers& transfers,
                                 std::int64_t memory_bytes);

}  // namespace pipesim
