#include "traces/command/python_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "traces/base/text.h"

namespace pipesim {
namespace {

// The name of what Python calls otherwise, or keeps for itself.
std::string identifier(std::string name) {
  constexpr std::array<std::string_view, 5> reserved{"import", "from", "with", "global", "lambda"};
  name.erase(0, name.find_first_not_of('-'));
  std::ranges::replace(name, '-', '_');
  if (std::ranges::find(reserved, name) != reserved.end()) name += '_';
  return name;
}

const FlagDescription* find_flag(const CommandDescription& command, std::string_view name) {
  const auto found = std::ranges::find_if(
      command.flags, [&](const FlagDescription& flag) { return flag.names.back() == name; });
  return found == command.flags.end() ? nullptr : &*found;
}

// What the functions decide themselves.
bool is_ours(const FlagDescription& flag) {
  constexpr std::array<std::string_view, 3> ours{"--help", "--json", "--quiet"};
  return std::ranges::find(ours, flag.names.back()) != ours.end() ||
         (flag.names.back() == "--output" && flag.is_required);
}

std::string function(const CommandDescription& command) {
  const std::string name = command.name.substr(command.name.find(' ') + 1);
  std::string positional, keywords, documents, values;
  bool repeats = false;
  for (const FlagDescription& argument : command.arguments) {
    const std::string called = identifier(argument.names.back());
    repeats |= argument.may_repeat;
    positional += argument.may_repeat ? fmt::format("*{}: Text, ", called)
                                      : fmt::format("{}: {}, ", called,
                                                    argument.is_required ? "Text" : "Given = None");
    values += fmt::format("{}{}, ", argument.may_repeat ? "*" : "", called);
    documents += fmt::format("      {}: {}\n", called, argument.help);
  }
  std::string group;
  for (const FlagDescription& flag : command.flags) {
    if (is_ours(flag)) continue;
    const std::string called = identifier(flag.names.back());
    keywords += flag.type.empty() ? fmt::format("    {}: bool = False,\n", called)
                                  : fmt::format("    {}: Given = None,\n", called);
    if (flag.group != group) {
      group = flag.group;
      documents += fmt::format("\n    {}\n", group);
    }
    documents += fmt::format("      {}: {}{}\n", called, flag.help,
                             flag.type.empty() ? "" : fmt::format(" ({})", flag.type));
  }
  const std::string from = identifier(name);
  std::string kind = from;
  if (kind.ends_with('_')) kind.pop_back();
  kind.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(kind.front())));
  return fmt::format(
      "def {}({}{}\n{}) -> \"answers.{}\":\n    r\"\"\"{}.\n\n    The keywords are flags of `{}`, "
      "whose --help says more.\n{}{}    \"\"\"\n    given = dict(locals())\n{}    return "
      "answer(\"{}\", [{}], given)\n",
      from, positional, repeats ? "" : "*,", keywords, kind,
      std::string(
          1, static_cast<char>(std::toupper(static_cast<unsigned char>(command.about.front())))) +
          command.about.substr(1, command.about.find('\n') - 1),
      command.name, documents.starts_with('\n') ? "" : "\n", documents,
      [&] {
        std::string lines;
        for (const FlagDescription& argument : command.arguments) {
          lines += fmt::format("    del given[\"{}\"]\n", identifier(argument.names.back()));
        }
        return lines;
      }(),
      name, values.empty() ? "" : values.substr(0, values.size() - 2));
}

}  // namespace

std::string python_functions(const CommandDescription& program) {
  std::string functions;
  for (const CommandDescription& command : program.commands) {
    const FlagDescription* output = find_flag(command, "--output");
    const bool writes = output != nullptr && output->is_required;
    if (command.works && (find_flag(command, "--json") != nullptr || writes)) {
      functions += "\n\n" + function(command);
    }
  }
  if (functions.empty()) return functions;
  return fmt::format(
      "\"\"\"The commands of {} as functions, written by it when it is built.\"\"\"\n\n"
      "from . import answers\nfrom .program import Given, Text, answer\n{}",
      program.name, functions);
}

}  // namespace pipesim
