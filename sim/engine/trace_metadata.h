// What a predicted trace says of itself, enough to predict it again.
#pragma once

#include <string>

#include "sim/engine/prediction.h"

namespace pipesim {

// The object under metadata.pipesim (traces/FORMAT.md), in one line: program,
// placement, costs, p2p mode.
std::string trace_metadata_json(const Schedule& schedule, const Costs& costs,
                                const Prediction& prediction);

}  // namespace pipesim
