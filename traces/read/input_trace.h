// Reads traces of input pipelines, as traces/input_trace.h writes them. Depends only on the file;
// any thread.
#pragma once

#include <string>

#include "traces/input_run.h"
#include "traces/read/progress.h"

namespace pipesim {

// Strict: anything that contradicts the program, is missing, or occurs twice is an input error that
// says where. Args count, not names, processes, threads or the order of events.
InputRun read_input_run(const std::string& path, const ReadProgress& progress = {});

// Whether a regular file is such a trace, by the metadata before its events: reads no event.
// An input error if the file can't be read or is not a Chrome trace.
bool is_input_trace(const std::string& path);

}  // namespace pipesim
