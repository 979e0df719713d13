// The files that a command reads and writes.
#pragma once

#include <string>
#include <vector>

#include "traces/command/outputs.h"

namespace pipesim::cli {

// What a flag names, where that is a file and no preset.
Flag file_of(const Flag& flag);

// Whether a command's traces are the one run of an input pipeline. An input error where others
// stand beside it, or where a flag was given, other than those `used`, that it has no use for.
bool is_one_input_run(const std::vector<std::string>& traces, const CommandLine& command,
                      const std::vector<std::string>& used);

}  // namespace pipesim::cli
