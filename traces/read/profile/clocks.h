// Times of several ranks on one scale, and transfers seen from both ends.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/read/profile/operations.h"
#include "traces/recorded_run.h"

namespace pipesim {

// Puts all ranks' times on one scale. Clocks that count from 1970 keep their offsets; else ranks
// are assumed to start their first iteration at once. Then they are shifted by as little as
// possible so that nothing arrives before it was sent. Returns the shift of each rank, or nothing
// if none was needed. Throws an input error if a rank's times are more than 11 days apart.
std::vector<RecordedClock> align_clocks(std::vector<ProfileProcess>& processes,
                                        const std::vector<ProfileFile>& files, Warnings& warnings);

// Separates transfers from waiting: a RECV starts when both ends were ready, and was queued before;
// a SEND ends when its RECV does, if not before. If one end is not in the files the other keeps its
// whole time.
void pair_transfers(std::vector<ProfileProcess>& processes, Warnings& warnings);

// Shifts all times so that the first start is 0.
void count_from_first_start(std::vector<ProfileProcess>& processes);

}  // namespace pipesim
