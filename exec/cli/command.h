// Runs pipeexec, given its flags.
#pragma once

#include <optional>

#include "exec/cli/options.h"

namespace pipesim::exec {

// Runs all ranks of this process; prints what rank 0 has to say.
void run_command(const Flags& flags, const std::optional<Launch>& launch);

// For a rank that a launcher has started and that does not speak: lets the one that does
// tell of an error that only this rank may have. Does nothing where all ranks know. Where
// TCP would connect them, nobody hears yet: then this rank speaks, and ends.
void pass_on(const Error& error, const Flags& flags, const Launch& launch);

}  // namespace pipesim::exec
