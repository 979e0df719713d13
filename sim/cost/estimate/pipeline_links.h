// The links between the ranks of a pipeline, and to their replicas.
//
// Devices are numbered as in traces/mesh.h. Pure functions; any thread.
#pragma once

#include "sim/cost/costs.h"
#include "sim/cost/estimate/cost_model.h"

namespace pipesim {

// Sets links, also those to replicas if they exchange during compute, the ranks' own cost of
// messages, and the exchanges within the pipeline at the end of an iteration.
void link_ranks(const CostModel& model, const Placement& placement, Costs& costs);

}  // namespace pipesim
