// pipeexec checkpoint: shows folders of checkpoints, exports and imports weights.
#pragma once

#include <optional>

#include "exec/transport/launch.h"
#include "traces/command/command_line.h"

namespace pipesim::exec {

// The values of its commands' flags.
struct CheckpointCommandFlags {
  Flag folder;     // what show, verify and export look at
  Flag iteration;  // of show and export
  bool json = false;
  Flag weights;  // what export writes, or import reads
  Flag config;
  Flag model, saved;  // of import
};

// Adds the subcommands. Flags and launch outlive the program; a launch that is wrong does not
// matter here.
void add_checkpoint(CommandLine& program, CheckpointCommandFlags& flags,
                    const std::optional<Launch>& launch);

}  // namespace pipesim::exec
