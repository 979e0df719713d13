// A program's commands and flags as in its help: the source of its manual page and
// completions.
//
// Plain values; any thread.
#pragma once

#include <string>
#include <vector>

namespace pipesim {

// What a flag's text may name on disk.
enum class Paths { none, files, folders };

// A flag, or a positional argument.
struct FlagDescription {
  std::vector<std::string> names;  // "-o", "--output"; an argument's one without dashes
  std::string type;                // empty: a switch
  std::string help;
  std::string group;  // empty: without a heading
  bool is_required = false;
  bool may_repeat = false;
  bool may_be_alone = false;        // its text may be omitted
  std::vector<std::string> values;  // names it accepts; there may be others
  Paths paths = Paths::none;
};

struct CommandDescription {
  std::string name;  // with its parents: "pipesim schedule print"
  std::string about;
  std::string footer;
  bool works = true;  // without nested slices a subcommand
  std::vector<FlagDescription> arguments;
  std::vector<FlagDescription> flags;
  std::vector<FlagDescription> flags_of_commands;  // that it takes where none is named
  std::vector<CommandDescription> commands;
};

// The values listed in a flag's type, such as "none" and "full" in "none|full|LIST".
std::vector<std::string> values_in(const std::string& type);
Paths paths_of(const std::string& type);

}  // namespace pipesim
