// The report after a run, and the same as JSON.
#pragma once

#include <string>

#include "exec/cli/options.h"
#include "exec/run/session.h"
#include "traces/print/terminal.h"

namespace pipesim::exec {

std::string report(const Task& task, const RunResult& result, const Terminal& terminal);
std::string result_json(const Task& task, const RunResult& result);

// The available devices and transports, and why others are unavailable.
std::string device_list();

}  // namespace pipesim::exec
