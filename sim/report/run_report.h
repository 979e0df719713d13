// What one run says of itself, for people.
#pragma once

#include <string>

#include "traces/print/terminal.h"
#include "traces/recorded_run.h"

namespace pipesim {

// Of the iteration with the median makespan: its picture, what each rank did, bubbles, and the
// critical path.
std::string run_report(const RecordedRun& run, const Terminal& terminal);

// One sentence: how long an iteration takes, and how much of that ranks are idle.
std::string run_verdict(const RecordedRun& run);

}  // namespace pipesim
