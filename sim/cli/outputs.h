// The files that a command reads and writes, checked before any work.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/command/command_line.h"

namespace pipesim::cli {

struct NamedFile {
  std::string_view name;  // the flag or argument that names it
  Flag path;              // or nothing, where it was not given
  bool written = false;
};

// What a flag names, where that is a file and no preset.
Flag file_of(const Flag& flag);

// Throws an input error where a file that is to be written is one that stands
// before it in the list. Pipes and terminals may occur twice.
void check_outputs(const std::vector<NamedFile>& files);

}  // namespace pipesim::cli
