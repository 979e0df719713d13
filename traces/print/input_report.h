// The report of one run of an input pipeline as text, predicted or measured.
#pragma once

#include <string>

#include "traces/input_run.h"
#include "traces/print/terminal.h"

namespace pipesim {

// One sentence: how long a batch takes, and the share of the time that compute streams are busy.
std::string input_verdict(const InputRun& run, const InputMetrics& metrics);

// A picture of rank 0; by kind what is busy, hidden and exposed; a table of ranks. `metrics` are
// the run's.
std::string input_tables(const InputRun& run, const InputMetrics& metrics,
                         const Terminal& terminal);
// The verdict, and these.
std::string input_report(const InputRun& run, const InputMetrics& metrics,
                         const Terminal& terminal);

}  // namespace pipesim
