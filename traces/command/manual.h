// A program's manual page, in roff with the man macros, as `man -l` shows it.
//
// A footer's lines have this meaning: those that begin with two spaces are list
// entries, or commands below "Examples:"; more spaces continue one; all others are text.
#pragma once

#include <string>

#include "traces/command/description.h"

namespace pipesim {

std::string manual_page(const CommandDescription& program, const std::string& version);

}  // namespace pipesim
