// What a person reads: verdict, picture, table, what to do.
#pragma once

#include <optional>
#include <string>

#include "sim/cli/setup.h"
#include "sim/engine/prediction.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

std::string report(const ScheduleChoice& choice, const Costs& costs, const Prediction& prediction,
                   const ScheduleFlags& flags, const CostSource& source,
                   std::optional<std::int64_t> memory_cap, const Terminal& terminal);

}  // namespace pipesim::cli
