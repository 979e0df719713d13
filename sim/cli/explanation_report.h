// The report of --explain: tables of time and memory.
#pragma once

#include <cstdint>
#include <string>

#include "sim/cost/estimate/explanation.h"

namespace pipesim::cli {

// `memory_bytes`: the memory limit of a rank.
std::string explanation_report(const CostModel& model, const Explanation& explanation,
                               const Throughput& reached, std::int64_t memory_bytes, int width);

}  // namespace pipesim::cli
