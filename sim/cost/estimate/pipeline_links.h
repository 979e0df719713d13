// The links between the ranks of a pipeline, and to their replicas.
//
// Devices are numbered as in traces/mesh.h. Pure functions; any thread.
#pragma once

#include "sim/cost/costs.h"
#include "sim/cost/estimate/cost_model.h"

namespace pipesim {

// Links, where replicas exchange beside compute theirs too, and what messages cost the ranks
// themselves.
void link_ranks(const CostModel& model, const Placement& placement, Costs& costs);

}  // namespace pipesim
