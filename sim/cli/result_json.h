// The objects that --json prints; their keys are a contract (see the README).
#pragma once

#include <optional>
#include <string>

#include "sim/engine/prediction.h"

namespace pipesim::cli {

// The `pipesim-result` object, indented, with a line end. `memory_cap` adds
// `fits`.
std::string result_json(const Schedule& schedule, const Prediction& prediction,
                        std::optional<std::int64_t> memory_cap);

}  // namespace pipesim::cli
