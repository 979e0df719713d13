// The meaning of Megatron-LM's other arguments for a prediction.
//
// Pure; any thread.
#pragma once

#include <string>

#include "sim/import/arguments.h"

namespace pipesim {

// Why an argument has no counterpart; empty if it changes nothing.
std::string megatron_reason(const Arguments::Argument& argument);

}  // namespace pipesim
