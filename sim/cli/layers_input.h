// The layers for `pipesim partition`: from a model on a cluster, costs by layer, a measured run, or
// a profile of PipeDream's.
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
  std::optional<CostsFile> file;   // absent if --model gives the layers
  std::vector<std::string> names;  // of a file's layers, if it has them
  std::vector<int> layout;         // of a measured run; else empty
};

// Completes `schedule` from that of a measured run.
LayersInput read_layers(const LayersFlags& flags, ScheduleFlags& schedule);

}  // namespace pipesim::cli
