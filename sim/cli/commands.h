// The commands of pipesim, one file each: the functions that set up their flags and work.
#pragma once

#include <vector>

#include "traces/command/command_line.h"

namespace pipesim::cli {

void set_up_predict(CommandLine& command);    // pipesim predict
void set_up_feed(CommandLine& command);       // pipesim feed
void set_up_schedules(CommandLine& command);  // pipesim schedules
void set_up_schedule(CommandLine& command);   // pipesim schedule ...
void set_up_compare(CommandLine& command);    // pipesim compare ...
void set_up_report(CommandLine& command);     // pipesim report ...
void set_up_calibrate(CommandLine& command);  // pipesim calibrate
void set_up_fit(CommandLine& command);        // pipesim fit
void set_up_what_if(CommandLine& command);    // pipesim whatif
void set_up_partition(CommandLine& command);  // pipesim partition
void set_up_plan(CommandLine& command);       // pipesim plan
void set_up_import(CommandLine& command);     // pipesim import
void set_up_goodput(CommandLine& command);    // pipesim goodput
void add_presets(CommandLine& program);       // pipesim models, clusters, software, devices

}  // namespace pipesim::cli
