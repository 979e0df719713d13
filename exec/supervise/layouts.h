// The command that is supervised, and its alternatives: how it is started with fewer ranks.
//
// Plain values, and functions of them; any thread. Words are those of a command line; what flags
// of pipeexec mean, but for where it saves, is not known here.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pipesim::exec {

struct CommandLayout {
  std::vector<std::string> words;  // goes on from where it saves
  std::optional<int> ranks;        // that its launcher starts, where the words say so
  std::string flags;               // of an alternative, as given; empty: the command itself

  std::string name() const;  // "the command", "'-n 2 --data-parallel 1'"
};

struct SupervisedCommand {
  std::string checkpoint;              // the folder that it saves to
  std::vector<CommandLayout> layouts;  // the command itself, then the alternatives in their order
};

// An input error where the command does not run pipeexec, does not save, or goes on from
// elsewhere than where it saves; or where an alternative changes that.
//
// An alternative's words are separated by blanks. Each that begins with a dash is a flag, and
// the words up to the next are its values. Where the launcher has the flag, -n, -np, --np and
// --ntasks counting as one, it is replaced there with as many values; else where pipeexec has it,
// there. A flag that neither has is put before pipeexec, where it has one dash, or else behind its
// flags.
SupervisedCommand supervised_command(const std::vector<std::string>& command,
                                     const std::vector<std::string>& alternatives);

// As it could be typed into a shell.
std::string command_text(const std::vector<std::string>& words);

}  // namespace pipesim::exec
