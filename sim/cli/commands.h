// The commands of pipesim, one file each. Each registers its flags; once the
// command line is read, `chosen` holds the work of the command that was given.
#pragma once

#include "traces/command/program.h"

namespace pipesim::cli {

void add_predict(CLI::App& app, Work& chosen);    // pipesim itself
void add_schedules(CLI::App& app, Work& chosen);  // pipesim schedules
void add_schedule(CLI::App& app, Work& chosen);   // pipesim schedule ...
void add_compare(CLI::App& app, Work& chosen);    // pipesim compare ...
void add_calibrate(CLI::App& app, Work& chosen);  // pipesim calibrate
void add_partition(CLI::App& app, Work& chosen);  // pipesim partition
void add_presets(CLI::App& app, Work& chosen);    // pipesim models, clusters, devices

}  // namespace pipesim::cli
