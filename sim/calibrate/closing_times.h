// What reduction, tied gradients, norm and optimizer take, from recorded runs.
//
// Where a run records the blocking collectives, each action takes its own time. Else
// reduction and optimizer count from when all ranks are through with what comes before:
// the times have what exchanging gradients and norms takes, and no waiting for slower
// ranks. By layer, a rank's time is dealt out to its layers, by parameters where
// the model is known, else by the times of forwards; by stage it is one number
// where ranks are alike, else a list with one per rank.
//
// With replicas, and where it is known what exchanges with them take, an optimizer waits for
// reductions before its time, and its time is that of stepping all states: what gathering them
// takes is left out, and where replicas split them it is as many times as long.
//
// Calls share nothing; any thread.
#pragma once

#include <span>
#include <vector>

#include "sim/cost/costs.h"
#include "traces/recorded_run.h"

namespace pipesim {

// Into `layers`, whose other times and parameters are known, or into `costs`, whose `replicas`
// are.
void set_closing_times(std::span<const RecordedRun* const> runs, bool by_layer, CostsFile& costs,
                       std::vector<StageCosts>& layers);

}  // namespace pipesim
