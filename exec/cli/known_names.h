// What pipeexec's flags may be given by name, for completions.
#pragma once

#include <vector>

#include "traces/command/description.h"

namespace pipesim::exec {

std::vector<KnownNames> known_names();

}  // namespace pipesim::exec
