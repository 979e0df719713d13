// The same model in other virtual stages: costs by stage, dealt out anew.
//
// The stages that are given are the model in its order, each of them alike from end to end. A
// placement of S virtual stages has it in S cuts, as long in stages: of N given ones, cut j is
// [jN/S, (j+1)N/S). So a chunk of V a rank takes 1/V of what a rank's whole stage does. Part i of
// n of an amount T is floor((i+1)T/n) - floor(iT/n), so that parts sum to T. A message keeps its
// bytes and what it costs its ends, wherever the model is cut. Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "sim/schedule/placement.h"

namespace pipesim {

// So many virtual stages instead. `whose` names the costs in errors: sums may be more than a
// stage may take.
std::vector<StageCosts> recut(const std::vector<StageCosts>& stages, int count,
                              const std::string& whose);

// Costs by stage, of a placement with as many stages as they have, as those of another one. What
// a rank does behind its last action goes with the stages that it holds, in equal parts.
// Second copies of stages cost what the first do.
CostsFile recut(CostsFile file, const Placement& given, const Placement& wanted);

}  // namespace pipesim
