// Traces of PyTorch's profiler (Kineto) as a run.
//
// Depends on the files alone; any thread.
#pragma once

#include <string>
#include <vector>

#include "traces/read_run.h"

namespace pipesim {

// One file of all ranks, or one a rank. What read_run() hands on.
RecordedRun read_profile(const std::vector<std::string>& paths, const ReadOptions& options);

}  // namespace pipesim
