// Flags of a command line, as text: what they mean is read later, by code that
// knows no command line.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace pipesim {

// A flag's text, absent where the flag was not given.
using Flag = std::optional<std::string>;

struct FlagHelp {
  std::string name;
  Flag* value;
  std::string type;
  std::string help;
};

// Registers flags, in a help group of their own.
void add_flags(CLI::App& app, const std::string& group, std::initializer_list<FlagHelp> flags);

// The first flag that was given to `app` itself, other than `except`; empty
// where there is none.
std::string first_given(const CLI::App& app, const std::vector<std::string>& except = {});

}  // namespace pipesim
