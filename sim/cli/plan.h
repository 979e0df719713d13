// The layout that is taken where a command line gives a model and devices, but no schedule.
#pragma once

#include "sim/cli/setup.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

// Prints it and the command that predicts it; what flags say of an axis counts.
void plan_in_short(const ModelFlags& model, const ScheduleFlags& schedule, const Flag& memory_cap);

}  // namespace pipesim::cli
