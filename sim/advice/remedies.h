// Changes that would make a training need less memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/estimate/cost_model.h"
#include "sim/engine/prediction.h"
#include "sim/schedule/schedule.h"

namespace pipesim {

struct Remedy {
  std::string what;  // "full recomputation", "full recomputation and ZeRO 1"
  std::int64_t makespan_ns = 0;
  std::int64_t peak_memory_bytes = 0;
};

// Fused attention, recomputation, sequence parallelism, ZeRO, as far as the
// training can have them and does not: of each kind the mildest that fits into
// `memory_bytes`, or else the one that saves most. Where none fits, those that
// save most together come first, as many as it takes. What fits stands first, the
// fastest of it first, then what needs least. Simulates the schedule for each.
// Pure; any thread.
std::vector<Remedy> try_remedies(const CostModel& model, const PipelineShape& shape,
                                 const Schedule& schedule, const Transfers& transfers,
                                 std::int64_t memory_bytes);

}  // namespace pipesim
