// --schedule: what tells the actions of a profile that leaves them unnamed.
#pragma once

#include <string>
#include <vector>

#include "traces/command/command_line.h"
#include "traces/recorded_run.h"

namespace pipesim::cli {

// A row a rank, as ReadOptions want them; empty without the flag.
std::vector<std::string> profile_program(const Flag& schedule);
// Throws where the flag was given for a run that says itself which action is which.
void check_profile_schedule(const Flag& schedule, const RecordedRun& run);

// The flag, for a command's "Input".
FlagHelp profile_schedule_flag(Flag* schedule);

}  // namespace pipesim::cli
