#include "sim/cli/shell_command.h"

#include <span>

namespace pipesim::cli {

std::string command_text(const std::vector<std::string>& words, const std::string& margin,
                         int width) {
  std::string out = margin + words.front();
  std::size_t column = out.size();
  for (const std::string& word : std::span(words).subspan(1)) {
    if (column + word.size() + 3 > static_cast<std::size_t>(width)) {
      out += " \\\n" + margin + "  " + word;
      column = margin.size() + 2 + word.size();
    } else {
      out += " " + word;
      column += 1 + word.size();
    }
  }
  return out + "\n";
}

}  // namespace pipesim::cli
