// Two runs whose virtual stages are not the same parts of the model: only their ranks and totals
// can be compared.
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "sim/compare/comparison.h"

namespace pipesim {

// Why a stage of one run is not that of the same number in the other; empty where it is. A profile
// may be of some ranks only: with as many stages on a rank as the other, its stages are the
// other's.
std::string stages_differ(const RecordedRun& predicted, const RecordedRun& measured);

// A comparison that joins nothing: what both have of their own, and why, in `unpaired`. All of the
// difference is `unmodelled`.
Comparison compare_ranks(const RecordedRun& predicted, const RecordedRun& measured);

}  // namespace pipesim
