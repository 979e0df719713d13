// The words of a shell script's commands, with what its own assignments put into them.
//
// Enough of a shell for scripts that start a training: quotes, comments, continued lines,
// variables, arrays, defaults, sums of whole numbers. Nothing is run. Conditions and loops are
// input errors. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

struct ShellWord {
  std::string text;
  int line = 0;
  std::string unknown{};  // the first variable in it that the script gives no value
};

using ShellWords = std::vector<ShellWord>;

struct ShellScript {
  std::vector<ShellWords> commands;  // a line that starts with a dash goes on with the one before
  ShellWords values;                 // of all variables, in the order of their assignments
};

ShellScript read_shell(std::string_view text, const std::string& file);

}  // namespace pipesim
