// The rank of each process of a profile, and its stages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/read/profile/operations.h"

namespace pipesim {

// The job's rank of a file: from its contents, else from its name.
std::optional<int> rank_of(const ProfileFile& file);

// "0, 4, 8", at most eight.
std::string list_of(const std::vector<int>& values);

// Sorts the processes by rank, and renumbers them 0, 1, ...: the rank is from the file, else from
// its name, else from the process's name; if any has none, by their smallest stages. Throws an
// input error if two have the same rank.
void order_by_rank(std::vector<ProfileProcess>& processes, const std::vector<ProfileFile>& files,
                   Warnings& warnings);

// The rank of each stage, from each rank's actions; fills in stages that ranges do not name. Throws
// an input error if a stage ran on two ranks, or ranks are missing.
std::vector<int> place_stages(std::vector<ProfileProcess>& processes,
                              const std::vector<ProfileFile>& files);

}  // namespace pipesim
