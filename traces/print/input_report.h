// The report of one run of an input pipeline as text, predicted or measured.
#pragma once

#include <string>

#include "traces/input_pipeline/input_run.h"
#include "traces/print/terminal.h"

namespace pipesim {

// One sentence: how long a batch takes, and the share of the time that compute streams are busy.
std::string input_verdict(const InputRun& run, const InputMetrics& metrics);

// The verdict; a picture of rank 0; by kind what is busy, hidden and exposed; a table of ranks.
// `metrics` are the run's.
std::string input_report(const InputRun& run, const InputMetrics& metrics,
                         const Terminal& terminal);

// The same as `pipesim-input-report`, in traces/FORMAT.md.
std::string input_report_json(const InputRun& run, const InputMetrics& metrics);

}  // namespace pipesim
