// pipeexec supervise: restarts a run that ends too early.
#pragma once

#include <optional>

#include "exec/transport/launch.h"
#include "traces/command/command_line.h"

namespace pipesim::exec {

// The values of the flags.
struct SuperviseFlags {
  std::vector<std::string> command, alternatives;
  Flag restarts, timeout, grace;
  Flag ranks_available, grow_every;
  Flag kill_at;
  Flag trace, progress;
  bool json = false;
};

// Adds the subcommand. Flags and launch outlive the program; a launch that is wrong is for the
// command to refuse, which has an environment of its own.
void add_supervise(CommandLine& program, SuperviseFlags& flags,
                   const std::optional<Launch>& launch);

}  // namespace pipesim::exec
