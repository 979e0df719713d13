// What layers or stages hold and send, from the memory counters and messages of
// recorded runs.
//
// Counters are per rank: a stage's activations are the amount by which an F raises them, its weight
// residue the amount by which an I does, and states are what a rank always holds. A sum over
// several layers, or stages of a rank, is divided: all layers of a kind ("block 3", "block 4") hold
// the same, and of the values that fit all sums best those nearest, in proportion, to the
// parameters of a known model are taken, else to the times of forwards. For a prediction the bytes
// are those that it was made with.
//
// Plain values; calls share nothing; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "traces/recorded_run.h"

namespace pipesim {

// Fills in the bytes of `entries`, one per layer or stage, whose times are known; returns notes on
// what could not be determined.
std::vector<std::string> set_bytes(std::span<const RecordedRun* const> runs, bool by_layer,
                                   std::vector<StageCosts>& entries);

}  // namespace pipesim
