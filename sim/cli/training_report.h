// What a report adds if a model gives the costs: its throughput, and what would make it fit.
#pragma once

#include <cstdint>
#include <string>

#include "sim/cli/switches.h"
#include "sim/cost/estimate/explanation.h"
#include "sim/engine/prediction.h"

namespace pipesim::cli {

// "4,766 tokens/s, 51 % MFU"; empty if nothing takes any time.
std::string throughput_text(const CostModel& model, const Throughput& throughput);

// The cheapest ways to make it fit, simulated, as one line; for a configuration that does not fit.
std::string remedies_line(const CostModel& model, const Prediction& prediction,
                          std::int64_t memory_bytes, const OtherFlags& other);

}  // namespace pipesim::cli
