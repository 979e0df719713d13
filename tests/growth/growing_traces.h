// Traces with much of one thing.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/growth/linear.h"

namespace pipesim::testing {

// Runs of ours.
std::vector<Growing> growing_runs();
// Such a run, of which each rank's clock is by so much ahead of that of the rank before.
inline constexpr std::int64_t clock_error_ns = 1'000'000;
Growing growing_clocks();
// Profiles of a pipeline, of one rank or of many.
std::vector<Growing> growing_profiles();
// Events that are no run of a pipeline.
std::vector<Growing> growing_events();

}  // namespace pipesim::testing
