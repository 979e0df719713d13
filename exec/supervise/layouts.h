// The supervised command and its alternatives, which start it with fewer ranks.
// Plain values, and functions of them; any thread. Words are those of a command line; the only
// flags of pipeexec known here are those that say where it saves.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pipesim::exec {

struct CommandLayout {
  std::vector<std::string> words;  // resumes from where it saves
  std::optional<int> ranks;        // started by its launcher, if the words say so
  std::string flags;               // of an alternative, as given; empty: the command itself

  std::string name() const;  // "the command", "'-n 2 --data-parallel 1'"
};

struct SupervisedCommand {
  std::string checkpoint;              // the folder that it saves to
  std::vector<CommandLayout> layouts;  // the command itself, then the alternatives in their order
};

// Throws an input error if the command does not run pipeexec, does not save, or resumes from
// another folder than it saves to; or if an alternative changes that. An alternative's words are
// separated by blanks. Each that begins with a dash is a flag, and the words up to the next are its
// values. If the launcher has the flag, with -n, -np, --np and --ntasks counting as one, it is
// replaced there with as many values; else if pipeexec has it, there. A flag that neither has is
// inserted before pipeexec if it has one dash, else after pipeexec's flags.
SupervisedCommand supervised_command(const std::vector<std::string>& command,
                                     const std::vector<std::string>& alternatives);

// Quoted for a shell.
std::string command_text(const std::vector<std::string>& words);

}  // namespace pipesim::exec
