// The names that pipeexec's flags accept, for completions.
#pragma once

#include <vector>

#include "traces/command/description.h"

namespace pipesim::exec {

std::vector<KnownNames> known_names();

}  // namespace pipesim::exec
