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

// What the functions decide themselves, or what would change the kind of answer.
bool is_ours(const FlagDescription& flag) {
  constexpr std::array<std::string_view, 4> ours{"--help", "--json", "--quiet", "--list-ranks"};
  return std::ranges::find(ours, flag.names.back()) != ours.end() ||
         (flag.names.back() == "--output" && flag.is_required);
}

std::string capitalized(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string function(const CommandDescription& command) {
  const std::string name = command.name.substr(command.name.find(' ') + 1);
  std::string parameters, documents, arguments;
  bool repeats = false;  // then all that follows is named
  for (const FlagDescription& argument : command.arguments) {
    const std::string called = identifier(argument.names.back());
    parameters +=
        fmt::format("    {}{}{},\n", argument.may_repeat ? "*" : "", called,
                    argument.may_repeat || argument.is_required ? ": Text" : ": Given = None");
    repeats |= argument.may_repeat;
    arguments += fmt::format("{}\"{}\"", arguments.empty() ? "" : ", ", called);
    documents += fmt::format("      {}: {}\n", called, argument.help);
  }
  if (!repeats) parameters += "    *,\n";
  std::string group;
  for (const FlagDescription& flag : command.flags) {
    if (is_ours(flag)) continue;
    const std::string called = identifier(flag.names.back());
    const bool is_switch = flag.type.empty();
    parameters += fmt::format("    {}: {},\n", called,
                              is_switch           ? "bool = False"
                              : flag.may_repeat   ? "Union[Text, Sequence[Text]] = ()"
                              : flag.may_be_alone ? "Union[Given, bool] = None"
                                                  : "Given = None");
    if (flag.group != group) {
      group = flag.group;
      documents += fmt::format("\n    {}\n", group);
    }
    documents += fmt::format("      {}: {}{}\n", called, flag.help,
                             is_switch ? "" : fmt::format(" ({})", flag.type));
  }
  return fmt::format(
      "def {}(\n{}) -> answers.{}:\n"
      "    r\"\"\"{}.\n\n    The keywords are flags of `{}`, whose --help says more.\n\n{}    "
      "\"\"\"\n"
      "    return answer(\"{}\", locals(), [{}])\n",
      identifier(name), parameters, capitalized(name),
      capitalized(command.about.substr(0, command.about.find('\n'))), command.name,
      documents.substr(documents.find_first_not_of('\n')), name, arguments);
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
      "from __future__ import annotations\n\nfrom typing import Sequence, Union\n\n"
      "from . import answers\nfrom .program import Given, Text, answer\n{}",
      program.name, functions);
}

}  // namespace pipesim
