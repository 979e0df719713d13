// Traces of PyTorch's profiler as a run: of torch.distributed.pipelining, whose ranges name each
// action, or of others by the order of a known schedule. FORMAT.md, "PyTorch profiler traces",
// defines the spans. Depends only on the files; no shared state; any thread.
#pragma once

#include <string>
#include <vector>

#include "traces/read/profile/profile_file.h"
#include "traces/read/read_run.h"
#include "traces/recorded_run.h"

namespace pipesim {

// One file of all ranks, or one per rank, in any order. Throws an input error if a file can't be
// read or files don't belong together, and a work error if nothing in them identifies actions.
RecordedRun read_profile(const std::vector<std::string>& paths, const ReadOptions& options);

// The same for files already read; `warnings` are those of reading them.
RecordedRun profile_run(const std::vector<ProfileFile>& files, const Warnings& warnings,
                        const ProfileOptions& options);

// Whether ranges of the file name actions or, with a program, might be identified by it.
bool tells_actions(const ProfileFile& file, bool with_program);

}  // namespace pipesim
