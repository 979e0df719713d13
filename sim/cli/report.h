// What a person reads: verdict, picture, table, what to do.
#pragma once

#include <optional>
#include <string>

#include "sim/cli/limits_report.h"
#include "sim/cli/setup.h"
#include "sim/engine/prediction.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

// "1F1B, 4 stages, 8 microbatches".
std::string schedule_text(const ScheduleChoice& choice, const Transfers& transfers);

// `model`: where costs are one's; `memory_cap` is then there. `arguments`: the command line.
std::string report(const ScheduleChoice& choice, const Costs& costs, const Prediction& prediction,
                   const ScheduleFlags& flags, const CostSource& source,
                   const std::optional<CostModel>& model, std::optional<std::int64_t> memory_cap,
                   const std::vector<std::string>& arguments, const Terminal& terminal);

}  // namespace pipesim::cli
