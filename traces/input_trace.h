// Runs of input pipelines to Chrome traces, which Perfetto, chrome://tracing and pipeview open,
// and back. traces/FORMAT.md has the layout of the file.
//
// Output depends only on the run, input only on the file: writing and reading a run gives
// the same run, to the nanosecond. Calls share nothing; any thread.
#pragma once

#include <string>

#include "traces/base/files.h"
#include "traces/input_pipeline/input_run.h"
#include "traces/read/progress.h"

namespace pipesim {

// The file, compressed or not, belongs to the caller, and is not committed.
void write_input_trace(const InputRun& run, OutputFile& file);
// Compressed if the name ends in `.gz`.
void write_input_trace(const InputRun& run, const std::string& path);

// Strict: anything that contradicts the program, is missing, or occurs twice is an input error that
// says where. Args count, not names, processes, threads or the order of events.
InputRun read_input_run(const std::string& path, const ReadProgress& progress = {});

// Whether a regular file is such a trace, by the metadata before its events: reads no event.
// An input error if the file can't be read or is not a Chrome trace.
bool is_input_trace(const std::string& path);

}  // namespace pipesim
