// Runs pipeexec, given its flags.
#pragma once

#include <optional>

#include "exec/cli/options.h"

namespace pipesim::exec {

// Runs all ranks of this process; prints rank 0's report.
void run_command(const Flags& flags, const std::optional<Launch>& launch);

// For a launched rank that does not print: passes an error that only this rank may have to the one
// that prints, and exits. Does nothing if all ranks know it. Before TCP connects them there is no
// other rank: then this rank prints it.
void pass_on(const Error& error, const Flags& flags, const Launch& launch);

}  // namespace pipesim::exec
