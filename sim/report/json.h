// The object that `pipesim compare --json` prints; its keys are a contract (see
// traces/FORMAT.md).
#pragma once

#include <string>

#include "sim/compare/comparison.h"
#include "traces/base/json.h"

namespace pipesim {

// The `pipesim-comparison` object, indented, with a line end.
std::string comparison_json(const RecordedRun& predicted, const RecordedRun& measured,
                            const Comparison& comparison);

Json quantiles_json(const Quantiles& values);

// One line for each operation that either run has: times in nanoseconds, both absolute and from the
// iteration's start, its place in the rank's list, and its lateness by cause.
std::string operations_csv(const Comparison& comparison);

}  // namespace pipesim
