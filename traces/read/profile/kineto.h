// Traces of PyTorch's profiler as a run: torch.distributed.pipelining's, whose
// ranges name each action, or others' by the order of a known schedule.
//
// FORMAT.md, "PyTorch profiler traces", says what becomes a span. Depends on the
// files alone; calls share nothing; any thread.
#pragma once

#include <string>
#include <vector>

#include "traces/read/read_run.h"
#include "traces/recorded_run.h"

namespace pipesim {

// One file of all ranks, or one a rank, in any order. Throws an input error where
// a file can't be read or files don't belong together, and a work error where
// nothing in them says which action is which.
RecordedRun read_profile(const std::vector<std::string>& paths, const ReadOptions& options);

}  // namespace pipesim
