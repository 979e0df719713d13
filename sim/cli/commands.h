// The commands of pipesim, one file each. Each registers its flags and returns
// nothing; the work runs as the app's callback once the command line is read.
#pragma once

#include <CLI/CLI.hpp>

namespace pipesim::cli {

void add_predict(CLI::App& app);    // pipesim itself
void add_schedules(CLI::App& app);  // pipesim schedules
void add_schedule(CLI::App& app);   // pipesim schedule ...

}  // namespace pipesim::cli
