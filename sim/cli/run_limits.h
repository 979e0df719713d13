// What limits a recorded run, as text.
#pragma once

#include <string>
#include <vector>

#include "sim/input/profile_flags.h"
#include "traces/recorded_run.h"

namespace pipesim::cli {

// From costs calibrated on the run (sim/request/what_if.h), with the commands that try alternatives
// on its `files`, read as `profile` says. If costs can't be determined from the run, says why;
// empty for a long run.
std::string run_limits_report(const RecordedRun& run, const std::vector<std::string>& files,
                              const ProfileFlags& profile, int width);

}  // namespace pipesim::cli
