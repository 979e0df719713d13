// What a report adds where costs are a model's: how fast it trains, and what
// would make it fit.
#pragma once

#include <cstdint>
#include <string>

#include "sim/cli/setup.h"
#include "sim/cost/estimate/explanation.h"
#include "sim/engine/prediction.h"

namespace pipesim::cli {

// "4,766 tokens/s, 51 % MFU"; empty where nothing takes any time.
std::string throughput_text(const CostModel& model, const Throughput& throughput);

// The cheapest ways to fit, simulated, as a line; for what does not fit.
std::string remedies_line(const CostModel& model, const PipelineShape& shape,
                          const Schedule& schedule, const Prediction& prediction,
                          std::int64_t memory_bytes);

}  // namespace pipesim::cli
