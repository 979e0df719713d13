// A comparison as a person reads it: verdict, pictures, where the gap comes from,
// causes, tables.
#pragma once

#include <string>

#include "sim/compare/comparison.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

std::string comparison_report(const RecordedRun& predicted, const RecordedRun& measured,
                              const Comparison& comparison, const Terminal& terminal);

// One sentence: whether the prediction holds, and by how much.
std::string verdict_of(const Comparison& comparison);
// How an action is identified, for people.
std::string_view identified_name(Identified identified);

}  // namespace pipesim::cli
