// pipeexec supervise: restarts a run that ends too early.
#pragma once

#include <optional>

#include "exec/transport/launch.h"
#include "traces/command/command_line.h"

namespace pipesim::exec {

// The flags.
struct SuperviseFlags {
  std::vector<std::string> command, alternatives;
  Flag restarts, timeout, grace;
  Flag ranks_available, grow_every;
  Flag kill_at;
  Flag trace, progress;
  bool json = false;
};

// Adds the subcommand. Flags and launch must outlive the program; an invalid launch is left for the
// supervised command to refuse, which has its own environment.
void add_supervise(CommandLine& program, SuperviseFlags& flags,
                   const std::optional<Launch>& launch);

}  // namespace pipesim::exec
