// pipeexec device: measures what a device's kernels reach, and writes it as a device of pipesim.
#pragma once

#include <optional>

#include "exec/transport/launch.h"
#include "traces/command/command_line.h"

namespace pipesim::exec {

struct DeviceFlags {
  Flag device, output, name, seconds, most_spread;
  bool small = false;
};

// Adds the command. Flags and launch must outlive the program.
void add_device(CommandLine& program, DeviceFlags& flags, const std::optional<Launch>& launch);

}  // namespace pipesim::exec
