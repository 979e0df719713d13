// Where `pipesim partition` has its layers from: a model on a cluster, costs by
// layer, a measured run, or a profile of PipeDream's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cli/setup.h"
#include "sim/cost/costs.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct LayersFlags {
  CostFlags costs;
  Flag graph, optimizer_multiple, measured;
};

void add_layers_flags(CommandLine& command, LayersFlags& flags);

struct LayersInput {
  std::string name;                // of the model or file
  std::optional<CostsFile> file;   // absent where --model gives the layers
  std::vector<std::string> names;  // of a file's layers, where it says them
  std::vector<int> layout;         // of a measured run; else empty
};

// Completes `schedule` with what a measured run says of its own.
LayersInput read_layers(const LayersFlags& flags, ScheduleFlags& schedule);

}  // namespace pipesim::cli
