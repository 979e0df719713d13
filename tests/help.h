// A program's commands and flags, as its help lists them.
#pragma once

#include <string>
#include <vector>

namespace pipesim::testing {

struct HelpFlag {
  std::vector<std::string> names;  // "-o", "--output"; of an argument its one without dashes
  std::string type;                // empty: a switch
};

struct CommandHelp {
  std::vector<std::string> words;  // as it is typed: "pipesim", "schedule", "print"
  std::vector<HelpFlag> arguments;
  std::vector<HelpFlag> flags;
  std::vector<std::string> commands;
  std::vector<std::string> examples;  // command lines
};

CommandHelp help_of(const std::vector<std::string>& command);

// The command and all those below it.
std::vector<CommandHelp> all_help_of(const std::vector<std::string>& command);

}  // namespace pipesim::testing
