// Completions of a program's command line, for shells: of subcommands, of each one's flags, of
// what these may be given by name, and of files.
#pragma once

#include <string>

#include "traces/command/description.h"

namespace pipesim {

// Sourced, it needs nothing but bash itself.
std::string bash_completion(const CommandDescription& program);

// A function that zsh finds as _NAME in its fpath.
std::string zsh_completion(const CommandDescription& program);

}  // namespace pipesim
