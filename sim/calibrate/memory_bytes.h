// What layers or stages hold and send, from the memory counters and messages of
// recorded runs.
//
// Counters are of ranks: a stage's activations are by how much an F raises
// them, its weight residue by how much an I does, and states are what a rank
// holds all the time. A sum over several layers, or stages of a rank, is dealt
// out: all layers of a kind ("block 3", "block 4") hold the same, and of the
// values that fit all sums best those count that are nearest, in proportion, to
// the parameters of a known model, else to the times of forwards. The bytes of a
// prediction are those that it was made with.
//
// Plain values; calls share nothing; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "traces/recorded_run.h"

namespace pipesim {

// Fills in the bytes of `entries`, one a layer or stage, whose times are known;
// returns notes on what could not be told.
std::vector<std::string> set_bytes(std::span<const RecordedRun* const> runs, bool by_layer,
                                   std::vector<StageCosts>& entries);

}  // namespace pipesim
