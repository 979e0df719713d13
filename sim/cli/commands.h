// The commands of pipesim, one file each: each adds its flags and its work.
#pragma once

#include "traces/command/command_line.h"

namespace pipesim::cli {

void add_predict(CommandLine& program);    // pipesim itself
void add_schedules(CommandLine& program);  // pipesim schedules
void add_schedule(CommandLine& program);   // pipesim schedule ...
void add_compare(CommandLine& program);    // pipesim compare ...
void add_report(CommandLine& program);     // pipesim report ...
void add_calibrate(CommandLine& program);  // pipesim calibrate
void add_fit(CommandLine& program);        // pipesim fit
void add_what_if(CommandLine& program);    // pipesim whatif
void add_partition(CommandLine& program);  // pipesim partition
void add_plan(CommandLine& program);       // pipesim plan
void add_goodput(CommandLine& program);    // pipesim goodput
void add_presets(CommandLine& program);    // pipesim models, clusters, devices

}  // namespace pipesim::cli
