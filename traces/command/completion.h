// Shell completions of a program's command line: subcommands, their flags, the
// names these accept, and files.
#pragma once

#include <string>

#include "traces/command/description.h"

namespace pipesim {

// Sourced, it needs nothing but bash itself.
std::string bash_completion(const CommandDescription& program);

// A function that zsh finds as _NAME in its fpath.
std::string zsh_completion(const CommandDescription& program);

}  // namespace pipesim
