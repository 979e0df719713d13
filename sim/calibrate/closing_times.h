// What reduction, tied gradients, norm and optimizer take, from recorded runs.
//
// If a run records the blocking collectives, each action takes its own time. Otherwise reduction
// and optimizer count from when all ranks have finished what comes before: the times include the
// exchange of gradients and norms, but no waiting for slower ranks. By layer, a rank's time is
// divided among its layers, by parameters if the model is known, else by the times of forwards; by
// stage it is one number if all ranks take the same, else a list with one per rank.
//
// With replicas whose exchange times are known, an optimizer waits for reductions before its time
// starts, and its time is that of stepping all states: it excludes gathering them, and if replicas
// split them it is multiplied by the number of shares.
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
