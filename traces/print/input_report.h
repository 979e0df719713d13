// What one run of an input pipeline says of itself, for people: predicted and measured alike.
#pragma once

#include <string>

#include "traces/input_pipeline/input_run.h"
#include "traces/print/terminal.h"

namespace pipesim {

// One sentence: what a batch takes, and how much of the time compute streams are busy.
std::string input_verdict(const InputRun& run, const InputMetrics& metrics);

// The verdict; a picture of rank 0; by kind what is busy, hidden and exposed; a table of ranks.
// `metrics` are the run's.
std::string input_report(const InputRun& run, const InputMetrics& metrics,
                         const Terminal& terminal);

// The same as `pipesim-input-report`, in traces/FORMAT.md.
std::string input_report_json(const InputRun& run, const InputMetrics& metrics);

}  // namespace pipesim
