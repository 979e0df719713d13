// A program's manual page, in roff with the man macros, as `man -l` shows it.
//
// What a footer says is told by its lines: those that begin with two spaces are a list's
// entries, or commands below "Examples:"; further spaces continue one; all others are text.
#pragma once

#include <string>

#include "traces/command/description.h"

namespace pipesim {

std::string manual_page(const CommandDescription& program, const std::string& version);

}  // namespace pipesim
