// The links between the ranks of a pipeline, and to their replicas.
//
// Devices are numbered as in traces/mesh.h. Pure functions; any thread.
#pragma once

#include "sim/cost/costs.h"
#include "sim/cost/estimate/cost_model.h"

namespace pipesim {

// Links, where replicas exchange beside compute theirs too, what messages cost the ranks
// themselves, and what ranks of the pipeline exchange at the end of an iteration.
void link_ranks(const CostModel& model, const Placement& placement, Costs& costs);

}  // namespace pipesim
