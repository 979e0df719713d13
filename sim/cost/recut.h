// The same model in a different number of virtual stages: costs by stage, divided anew.
//
// The given stages are the model in order, and each is assumed uniform. A placement of S virtual
// stages cuts the model into S pieces of equal length in stages: of N given ones, piece j is [jN/S,
// (j+1)N/S). So with V chunks per rank each takes 1/V of a whole stage's time. Part i of n of an
// amount T is floor((i+1)T/n) - floor(iT/n), so that parts sum to T. A message has the same bytes
// and costs to its ends wherever the model is cut. Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/schedule/placement.h"

namespace pipesim {

// Cuts into `count` virtual stages. `whose` names the costs in errors: a sum may exceed what a
// stage may take.
std::vector<StageCosts> recut(const std::vector<StageCosts>& stages, int count,
                              const std::string& whose);

// Converts costs by stage from a placement with that number of stages to another one. A rank's work
// after its last action belongs to the stages that it holds, in equal parts. Second copies of
// stages cost the same as the first.
CostsFile recut(CostsFile file, const Placement& given, const Placement& wanted);

}  // namespace pipesim
