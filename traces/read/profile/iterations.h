// Which iteration each operation of a profile belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/read/profile/operations.h"
#include "traces/read/profile_options.h"

namespace pipesim {

// Numbers them on every rank: by ProfilerStep#3 where all ranks have such ranges,
// each of which holds an action once; else from 0 on, a new one where an action
// recurs. Leaves out what is outside of them, iterations that not all ranks have
// or that have fewer actions than another, and operations that are lost. Returns the numbers, in
// order. Throws an input error where none is left.
std::vector<std::int32_t> number_iterations(std::vector<ProfileProcess>& processes,
                                            Warnings& warnings);

// Gives turns their actions: the n-th forward of a rank in an iteration is the
// n-th F of the rank's row in the program, one a process, and so on; iterations by
// ProfilerStep, else by count. Throws an input error where their numbers do not fit.
void infer_actions(std::vector<ProfileProcess>& processes, const ProfileOptions& options);

}  // namespace pipesim
