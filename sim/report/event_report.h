// Report of traces without a pipeline: ranks' times, and names by their own time.
//
// Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "traces/print/terminal.h"
#include "traces/read/event_trace.h"

namespace pipesim {

// For the files of one run: a sentence, then for each rank the metrics of METRICS.md, "Profiles
// without a pipeline", and the names with the most self time. Ends with a newline; no line
// is wider than the terminal, down to 40 columns.
std::string event_report(const std::vector<const EventTrace*>& traces, const Terminal& terminal);

// One sentence: the contents.
std::string event_verdict(const std::vector<const EventTrace*>& traces);

// From the first start to the last end of all slices.
std::int64_t length_ns(const EventTrace& events);

}  // namespace pipesim
