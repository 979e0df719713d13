// The files that a command reads and writes, checked before any work.
#pragma once

#include <string_view>
#include <vector>

#include "traces/command/command_line.h"

namespace pipesim {

struct NamedFile {
  std::string_view name;  // the flag or argument that names it
  Flag path;              // or nothing, if it was not given
  bool written = false;
};

// Throws an input error if an output file is also an earlier one
// in the list. Pipes and terminals may occur twice.
void check_outputs(const std::vector<NamedFile>& files);

}  // namespace pipesim
