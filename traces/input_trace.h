// Runs of input pipelines as Chrome traces, which Perfetto, chrome://tracing and pipeview open.
// traces/FORMAT.md has the layout of the file, traces/read/input_trace.h reads it.
//
// The same run gives the same bytes. Calls share nothing; any thread.
#pragma once

#include <string>

#include "traces/base/files.h"
#include "traces/input_run.h"

namespace pipesim {

// The file, compressed or not, belongs to the caller, and is not committed.
void write_input_trace(const InputRun& run, OutputFile& file);
// Compressed if the name ends in `.gz`.
void write_input_trace(const InputRun& run, const std::string& path);

}  // namespace pipesim
