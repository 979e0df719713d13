// Which iteration each operation of a profile belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/read/profile/operations.h"
#include "traces/read/profile_options.h"

namespace pipesim {

// Numbers iterations on every rank: by ProfilerStep#3 if all ranks have such ranges, and no action
// recurs within one; else from 0 on, a new one when an action recurs. Removes operations outside of
// them, iterations that not all ranks have or that have fewer actions than another, and lost
// operations. Returns the numbers, in order. Throws an input error if none is left.
std::vector<std::int32_t> number_iterations(std::vector<ProfileProcess>& processes,
                                            Warnings& warnings);

// Assigns actions to turns: the n-th forward of a rank in an iteration is the n-th F of the rank's
// row in the program, one per process, and so on; iterations by ProfilerStep, else by count. Throws
// an input error if their numbers do not match.
void infer_actions(std::vector<ProfileProcess>& processes, const ProfileOptions& options);

}  // namespace pipesim
