// Traces of PyTorch's profiler as a run: torch.distributed.pipelining's, whose
// ranges name each action, or others' by the order of a known schedule.
//
// FORMAT.md, "PyTorch profiler traces", says what becomes a span. Depends on the
// files alone; calls share nothing; any thread.
#pragma once

#include <string>
#include <vector>

#include "traces/read/profile/profile_file.h"
#include "traces/read/read_run.h"
#include "traces/recorded_run.h"

namespace pipesim {

// One file of all ranks, or one per rank, in any order. Throws an input error where
// a file can't be read or files don't belong together, and a work error where
// nothing in them says which action is which.
RecordedRun read_profile(const std::vector<std::string>& paths, const ReadOptions& options);

// The same of files that are read; `warnings` is what was odd about them.
RecordedRun profile_run(const std::vector<ProfileFile>& files, const Warnings& warnings,
                        const ProfileOptions& options);

// Whether ranges of the file name actions, or, with a program, might be told by it.
bool tells_actions(const ProfileFile& file, bool with_program);

}  // namespace pipesim
