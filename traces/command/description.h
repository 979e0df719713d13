// A program's commands and flags as its help has them: what its manual page and its completions
// are made of.
//
// Plain values; any thread.
#pragma once

#include <string>
#include <vector>

namespace pipesim {

// Names that flags may be given, as far as their types don't tell: "--p2p" of any command,
// or "plan --objective" of one.
struct KnownNames {
  std::string flag;
  std::vector<std::string> names;
};

// What a flag's text may name on a disk.
enum class Paths { none, files, folders };

// A flag, or an argument by position.
struct FlagDescription {
  std::vector<std::string> names;  // "-o", "--output"; an argument's one without dashes
  std::string type;                // empty: a switch
  std::string help;
  std::string group;  // empty: without a heading
  bool is_required = false;
  bool may_repeat = false;
  bool may_be_alone = false;        // its text may be omitted
  std::vector<std::string> values;  // texts by name; there may be others
  Paths paths = Paths::none;
};

struct CommandDescription {
  std::string name;  // with those above it: "pipesim schedule print"
  std::string about;
  std::string footer;
  bool works = true;  // without a subcommand
  std::vector<FlagDescription> arguments;
  std::vector<FlagDescription> flags;
  std::vector<CommandDescription> commands;
};

// The values that a flag's type lists, as "none" and "full" of "none|full|LIST".
std::vector<std::string> values_in(const std::string& type);
Paths paths_of(const std::string& type);

}  // namespace pipesim
