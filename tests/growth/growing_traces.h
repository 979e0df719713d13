// Traces with much of one thing.
#pragma once

#include <vector>

#include "tests/growth/linear.h"

namespace pipesim::testing {

// Runs of ours.
std::vector<Growing> growing_runs();
// Profiles of a pipeline, of one rank or of many.
std::vector<Growing> growing_profiles();
// Events that are no run of a pipeline.
std::vector<Growing> growing_events();

}  // namespace pipesim::testing
