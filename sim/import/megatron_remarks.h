// What Megatron-LM's other arguments mean for a prediction.
//
// Pure; any thread.
#pragma once

#include <string>

#include "sim/import/arguments.h"

namespace pipesim {

// Why an argument has no counterpart; empty where it changes nothing.
std::string megatron_reason(const Arguments::Argument& argument);

}  // namespace pipesim
