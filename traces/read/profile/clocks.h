// Times of several ranks on one scale, and transfers seen from both ends.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/read/profile/operations.h"
#include "traces/recorded_run.h"

namespace pipesim {

// Puts each rank's times on one scale. Clocks that count from 1970 stay as they
// are to each other; else ranks are taken to start their first iteration at once. Then they are
// shifted so that nothing arrives before it was sent, as little as will do. Returns the shift of
// each rank, or nothing where none was needed.
// Throws an input error where a rank's times are more than 11 days apart.
std::vector<RecordedClock> align_clocks(std::vector<ProfileProcess>& processes,
                                        const std::vector<ProfileFile>& files, Warnings& warnings);

// Splits what both ends of a transfer saw: a RECV starts when both were there,
// and was queued before; a SEND ends when its RECV does, if not before. Where
// one end is not in the files the other keeps its whole time.
void pair_transfers(std::vector<ProfileProcess>& processes, Warnings& warnings);

// Moves all times alike, so that the first start is 0.
void count_from_first_start(std::vector<ProfileProcess>& processes);

}  // namespace pipesim
