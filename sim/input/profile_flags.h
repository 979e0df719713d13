// The flags that say of a profile what its files leave open, alike for all that reads traces.
#pragma once

#include <string>
#include <vector>

#include "traces/command/command_line.h"
#include "traces/read/profile_options.h"

namespace pipesim {

struct ProfileFlags {
  Flag schedule, ranks, replica;
  // What `schedule` is called; another name where --schedule says something else.
  std::string schedule_name = "--schedule";
};

// For a command's "Input".
std::vector<FlagHelp> profile_flag_help(ProfileFlags& flags);

// Reads the schedule's file. Throws an input error where a text means nothing.
ProfileOptions profile_options(const ProfileFlags& flags);

}  // namespace pipesim
