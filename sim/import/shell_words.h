// The words of a shell script's commands, with its own variables expanded.
// Enough of a shell for scripts that start a training: quotes, comments, continued lines,
// variables, arrays, defaults, integer sums. Nothing is run. Conditions and loops are input errors.
// Pure; any thread.
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
  std::vector<ShellWords> commands;  // a line that starts with a dash continues the previous one
  ShellWords values;                 // of all variables, in the order of their assignments
};

ShellScript read_shell(std::string_view text, const std::string& file);

}  // namespace pipesim
