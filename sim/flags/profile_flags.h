// The flags for what a profile's files leave open, the same for all commands that read traces.
#pragma once

#include <string>
#include <vector>

#include "traces/command/command_line.h"
#include "traces/read/profile_options.h"

namespace pipesim {

struct ProfileFlags {
  Flag schedule, ranks, replica;
  // The name of the flag `schedule`; another one if --schedule has a different meaning.
  std::string schedule_name = "--schedule";
};

// For the "Input" section of a command's help.
std::vector<FlagHelp> profile_flag_help(ProfileFlags& flags);

// Reads the schedule's file. Throws an input error for a text without a meaning.
ProfileOptions profile_options(const ProfileFlags& flags);

}  // namespace pipesim
