// pipeexec checkpoint: shows folders of checkpoints, exports and imports weights.
#pragma once

#include <optional>

#include "exec/transport/launch.h"
#include "traces/command/command_line.h"

namespace pipesim::exec {

// The flags of its subcommands.
struct CheckpointCommandFlags {
  Flag folder;     // for show, verify and export
  Flag iteration;  // for show and export
  bool json = false;
  Flag weights;  // written by export, or read by import
  Flag config;
  Flag model, saved;  // for import
};

// Adds the subcommands. Flags and launch must outlive the program; an invalid launch does not
// matter here.
void add_checkpoint(CommandLine& program, CheckpointCommandFlags& flags,
                    const std::optional<Launch>& launch);

}  // namespace pipesim::exec
