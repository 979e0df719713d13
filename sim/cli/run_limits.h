// What holds a recorded run up, for people.
#pragma once

#include <string>
#include <vector>

#include "sim/input/profile_flags.h"
#include "traces/recorded_run.h"

namespace pipesim::cli {

// By costs calibrated on the run (sim/request/what_if.h), with the commands that try it otherwise
// on its `files`, read as `profile` says. A run of which costs can't be told says why; of a long
// one, empty.
std::string run_limits_report(const RecordedRun& run, const std::vector<std::string>& files,
                              const ProfileFlags& profile, int width);

}  // namespace pipesim::cli
