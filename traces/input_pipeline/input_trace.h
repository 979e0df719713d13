// Runs of input pipelines as Chrome traces, which Perfetto, chrome://tracing and pipeview open,
// and back. traces/FORMAT.md has the layout of the file.
//
// What is written depends on the run alone, what is read on the file alone: a run that is written
// and read is the same one, to the nanosecond. Calls share nothing; any thread.
#pragma once

#include <string>

#include "traces/base/files.h"
#include "traces/input_pipeline/input_run.h"
#include "traces/read/progress.h"

namespace pipesim {

// The file, compressed or not, is the caller's, and is not committed.
void write_input_trace(const InputRun& run, OutputFile& file);
// Compressed where the name ends in `.gz`.
void write_input_trace(const InputRun& run, const std::string& path);

// Strict: what contradicts the program, is missing, or is there twice is an input error that says
// where. Args count, not names, processes, threads or the order of events.
InputRun read_input_run(const std::string& path, const ReadProgress& progress = {});

// Whether a regular file is such a trace, as its metadata before the events say: reads no event.
// An input error where the file can't be read or is no Chrome trace.
bool is_input_trace(const std::string& path);

}  // namespace pipesim
