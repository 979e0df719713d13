// What pipeexec does once its flags are read.
#pragma once

#include <optional>

#include "exec/cli/options.h"

namespace pipesim::exec {

// Runs all ranks of this process; prints what rank 0 has to say.
void run_command(const Flags& flags, const std::optional<Launch>& launch);

}  // namespace pipesim::exec
