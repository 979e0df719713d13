// Which process of a profile is which rank, and which stages it has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/read/profile/operations.h"

namespace pipesim {

// The rank of the job that a file is of: as it says, else as its name does.
std::optional<int> rank_of(const ProfileFile& file);

// "0, 4, 8", eight at most.
std::string list_of(const std::vector<int>& values);

// Puts the processes in the order of their ranks, which are then 0, 1, ...: as
// the file tells the rank, else its name, else the process's name; where any
// does not tell, by their smallest stages. Throws an input error where two are
// the same rank.
void order_by_rank(std::vector<ProfileProcess>& processes, const std::vector<ProfileFile>& files,
                   Warnings& warnings);

// The rank of each stage, from what each rank computed; fills in stages that
// ranges do not name. Throws an input error where a stage ran on two ranks, or
// ranks are not there.
std::vector<int> place_stages(std::vector<ProfileProcess>& processes,
                              const std::vector<ProfileFile>& files);

}  // namespace pipesim
