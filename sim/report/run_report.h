// The report of one run.
#pragma once

#include <string>

#include "traces/base/json.h"
#include "traces/print/terminal.h"
#include "traces/print/timeline_panel.h"
#include "traces/recorded_run.h"

namespace pipesim {

// The iteration with the median makespan; it replays from `run`, which has a complete one.
TimelinePanel timeline_of(const RecordedRun& run);

// For that iteration: its picture, what each rank did, bubbles, and the critical path.
std::string run_report(const RecordedRun& run, const Terminal& terminal);

// The numbers of that report, by the keys of a `pipesim-report` (traces/FORMAT.md).
Json run_report_json(const RecordedRun& run);

// One sentence: how long an iteration takes, and how much of that ranks are idle.
std::string run_verdict(const RecordedRun& run);

}  // namespace pipesim
