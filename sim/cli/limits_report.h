// What holds an iteration up, for people, and the commands that try it otherwise.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/limits.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

// What was asked, as commands repeat it.
struct GivenCommand {
  std::vector<std::string> arguments;  // all of the command line
  bool by_layer = false;               // costs are dealt out by layer
};

// Lines of at most `width`; a command that is longer goes on behind a backslash.
std::string limits_report(const std::vector<Limit>& limits, const LimitsQuestion& question,
                          const GivenCommand& command, int width);

}  // namespace pipesim::cli
