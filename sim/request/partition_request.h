// The layers behind some costs, as a problem of splitting them over stages.
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "sim/partition/partition.h"
#include "sim/request/cost_source.h"

namespace pipesim {

// For costs by layer, named `name` in messages. Refers to the source.
PartitionProblem partition_problem(const CostSource& source, const ScheduleChoice& choice,
                                   const std::string& name);

}  // namespace pipesim
