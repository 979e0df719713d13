// A program's commands as Python functions, whose keywords are the commands' flags.
#pragma once

#include <string>

#include "traces/command/description.h"

namespace pipesim {

// A module: one function for each command that answers with values, that is, has --json or writes
// what it finds to an --output that must be given. Each hands its keywords to `answer` of the
// module .program, which tells them apart by their defaults: None of a text, False of a switch, ()
// of texts that may repeat. Empty if no command answers.
std::string python_functions(const CommandDescription& program);

}  // namespace pipesim
