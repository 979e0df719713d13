// A comparison as text: verdict, pictures, where the gap comes from,
// causes, tables.
#pragma once

#include <string>

#include "sim/compare/comparison.h"
#include "traces/print/terminal.h"
#include "traces/print/timeline_panel.h"

namespace pipesim {

// Both sides on one axis; it replays from the arguments.
TimelineGroup timelines_of(const RecordedRun& predicted, const RecordedRun& measured,
                           const Comparison& comparison);

std::string comparison_report(const RecordedRun& predicted, const RecordedRun& measured,
                              const Comparison& comparison, const Terminal& terminal);

}  // namespace pipesim
