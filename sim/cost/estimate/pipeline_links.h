// The links between the ranks of a pipeline, and to their replicas.
//
// Global ranks are numbered with tensor parallelism fastest, then data
// parallelism, then the pipeline, as Megatron-LM does. Pure functions; any
// thread.
#pragma once

#include "sim/cost/costs.h"
#include "sim/cost/estimate/cost_model.h"

namespace pipesim {

// Links, where replicas exchange beside compute theirs too, and what messages cost the ranks
// themselves.
void link_ranks(const CostModel& model, const Placement& placement, Costs& costs);

}  // namespace pipesim
