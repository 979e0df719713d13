#include "tests/help.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/command.h"
#include "tests/words.h"
#include "traces/base/text.h"

namespace pipesim::testing {
namespace {

// "-o,--output FILE.csv   where it goes": the type is behind one space, what it means behind
// several.
HelpFlag flag_in(const std::string& line) {
  const std::string head = line.substr(2, line.find("  ", 2) - 2);
  const std::vector<std::string> parts = words(head);
  HelpFlag flag;
  for (const std::string_view name : split(parts.front(), ',')) flag.names.emplace_back(name);
  if (parts.size() > 1) flag.type = parts[1];
  return flag;
}

}  // namespace

CommandHelp help_of(const std::vector<std::string>& command) {
  CommandHelp help{command, {}, {}, {}, {}};
  std::vector<std::string> asked = command;
  asked.emplace_back("--help");
  const Outcome outcome = run_command(asked);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::string heading;
  for (const std::string& line : lines_of(outcome.out)) {
    const bool is_entry = line.starts_with("  ") && line[2] != ' ';
    const bool are_examples = heading.starts_with("Example") || heading == "To begin with:";
    if (!is_entry) {
      if (!line.starts_with(' ')) {
        heading = line;
      } else if (are_examples) {
        help.examples.back() += " " + line.substr(line.find_first_not_of(' '));
      }
    } else if (are_examples) {
      help.examples.push_back(line.substr(2));
    } else if (heading == "Positionals:") {
      help.arguments.push_back(flag_in(line));
    } else if (heading.starts_with("Commands")) {
      const std::string names = line.substr(2, line.find("  ", 2) - 2);
      for (const std::string_view name : split(names, ',')) {
        help.commands.push_back(words(std::string(name)).front());
      }
    } else if (heading == "Subcommands:") {
      help.commands.push_back(words(line).front());
    } else if (line[2] == '-') {
      help.flags.push_back(flag_in(line));
    }
  }
  return help;
}

std::vector<CommandHelp> all_help_of(const std::vector<std::string>& command) {
  std::vector<CommandHelp> all{help_of(command)};
  for (const std::string& name : std::vector<std::string>(all.front().commands)) {
    std::vector<std::string> below = command;
    below.push_back(name);
    for (CommandHelp& help : all_help_of(below)) all.push_back(std::move(help));
  }
  return all;
}

}  // namespace pipesim::testing
