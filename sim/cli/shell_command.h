// A shell command, on as many lines as it needs.
#pragma once

#include <string>
#include <vector>

namespace pipesim::cli {

// `words` are not broken: a flag and its value are one word. Lines have at most `width` characters,
// as far as words allow, after a margin; all but the last end with a backslash.
std::string command_text(const std::vector<std::string>& words, const std::string& margin,
                         int width);

}  // namespace pipesim::cli
