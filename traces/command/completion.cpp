#include "traces/command/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

namespace pipesim {
namespace {

using Names = std::vector<std::string>;

void for_each(const CommandDescription& command,
              const std::function<void(const CommandDescription&)>& visit) {
  visit(command);
  for (const CommandDescription& below : command.commands) for_each(below, visit);
}

std::vector<FlagDescription> flags_of(const CommandDescription& command) {
  std::vector<FlagDescription> flags = command.flags;
  flags.insert(flags.end(), command.flags_of_commands.begin(), command.flags_of_commands.end());
  return flags;
}

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// A word of a shell.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// ---- bash

// A bash case that sets the candidates.
std::string bash_case(const Names& patterns, const std::string& sets) {
  return fmt::format("    {})\n      {} ;;\n", fmt::join(patterns, " | \\\n      "), sets);
}

std::string bash_offer(const Names& values, Paths paths) {
  const char* const files = paths == Paths::files ? "-f" : paths == Paths::folders ? "-d" : "";
  return fmt::format("names='{}' files={}", fmt::join(values, " "), files);
}

std::string bash_values(const CommandDescription& program) {
  std::map<std::string, Names> flags;  // by their values
  for_each(program, [&](const CommandDescription& command) {
    for (const FlagDescription& flag : flags_of(command)) {
      if (flag.type.empty()) continue;
      Names& same = flags[bash_offer(flag.values, flag.paths)];
      for (const std::string& name : flag.names) same.push_back(quoted(command.name + " " + name));
    }
  });
  std::string cases;
  for (const auto& [offer, names] : flags) cases += bash_case(names, offer);
  return cases;
}

std::string bash_words(const CommandDescription& program) {
  std::string cases;
  for_each(program, [&](const CommandDescription& command) {
    Names names;
    Names flags;
    Paths paths = Paths::none;
    for (const CommandDescription& below : command.commands) names.push_back(last_word(below.name));
    for (const FlagDescription& argument : command.arguments) {
      names.insert(names.end(), argument.values.begin(), argument.values.end());
      paths = std::max(paths, argument.paths);
    }
    for (const FlagDescription& flag : flags_of(command)) {
      flags.insert(flags.end(), flag.names.begin(), flag.names.end());
    }
    cases += bash_case(
        {quoted(command.name)},
        fmt::format("{}\n      flags='{}'", bash_offer(names, paths), fmt::join(flags, " ")));
  });
  return cases;
}

constexpr std::string_view bash_script =
    R"bash(# Completes the command line of @name@ in bash. Written by @name@, when it was built.

# Sets what may follow a flag of a command; false where nothing need.
_@name@_values() {
  case "$1 $2" in
@values@    *) return 1 ;;
  esac
}

# Sets what else may follow a command.
_@name@_words() {
  case "$1" in
@words@    *) return 1 ;;
  esac
}

_@name@() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  # To bash --flag=value is three words.
  if [[ $word == '=' ]]; then
    word=
  elif [[ $before == '=' ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  local command=@name@ names files flags i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i - 1]} == '=' ]] && continue
    _@name@_values "$command" "${COMP_WORDS[i - 1]}" && continue
    _@name@_words "$command"
    case " $names " in
      *" ${COMP_WORDS[i]} "*) _@name@_words "$command ${COMP_WORDS[i]}" &&
        command+=" ${COMP_WORDS[i]}" ;;
    esac
  done
  if [[ $word == -* ]] || ! _@name@_values "$command" "$before"; then
    _@name@_words "$command"
    [[ $word == -* || -z $names$files ]] && names=$flags files=
  fi
  mapfile -t COMPREPLY < <(compgen -W "$names" -- "$word"; [[ $files ]] && compgen $files -- "$word")
  # Appends slashes to folders; where no key was pressed, there is nothing to set.
  [[ $files ]] && compopt -o filenames 2>/dev/null
  return 0
}

complete -F _@name@ @name@
)bash";

// ---- zsh

std::string zsh_action(const FlagDescription& flag) {
  const char* const files = flag.paths == Paths::files     ? "_files"
                            : flag.paths == Paths::folders ? "_files -/"
                                                           : "";
  const std::string values = fmt::format("{}", fmt::join(flag.values, " "));
  if (values.empty()) return *files == '\0' ? " " : files;
  if (*files == '\0') return fmt::format("({})", values);
  return fmt::format("{{compadd -- {}; {}}}", values, files);
}

// A zsh message with its name.
std::string zsh_text(const FlagDescription& flag, const std::string& name) {
  return fmt::format("{}:{}:{}", flag.may_be_alone ? ":" : "", replaced(name, ":", "\\:"),
                     zsh_action(flag));
}

std::string zsh_function(const CommandDescription& command) {
  Names specs;
  for (const FlagDescription& flag : flags_of(command)) {
    const std::string help = replaced(replaced(flag.help, "[", "\\["), "]", "\\]");
    for (const std::string& name : flag.names) {
      const bool takes_equals = !flag.type.empty() && name.starts_with("--");
      specs.push_back(quoted(fmt::format("{}{}{}[{}]{}", flag.may_repeat ? "*" : "", name,
                                         takes_equals ? "=" : "", help,
                                         flag.type.empty() ? "" : zsh_text(flag, flag.type))));
    }
  }
  int position = 1;
  for (const FlagDescription& argument : command.arguments) {
    const std::string where = argument.may_repeat ? "*" : std::to_string(position++);
    specs.push_back(quoted(where + zsh_text(argument, argument.names.front())));
  }
  std::string choice;
  if (!command.commands.empty()) {
    specs.insert(specs.end(), {"'1: :->command'", "'*:: :->rest'"});
    choice = "  case $state in\n    command)\n      local -a commands=(\n";
    for (const CommandDescription& below : command.commands) {
      choice += fmt::format("        {}\n", quoted(last_word(below.name) + ":" + below.about));
    }
    choice +=
        "      )\n      _describe subcommand commands ;;\n    rest)\n      case $words[1] in\n";
    for (const CommandDescription& below : command.commands) {
      choice += fmt::format("        {}) _{} ;;\n", last_word(below.name),
                            replaced(below.name, " ", "_"));
    }
    choice += "      esac ;;\n  esac\n";
  }
  std::string text = fmt::format(
      "_{}() {{\n  local curcontext=$curcontext state state_descr line\n  local -A opt_args\n"
      "  _arguments -C \\\n    {}\n{}}}\n\n",
      replaced(command.name, " ", "_"), fmt::join(specs, " \\\n    "), choice);
  for (const CommandDescription& below : command.commands) text += zsh_function(below);
  return text;
}

}  // namespace

std::string bash_completion(const CommandDescription& program) {
  std::string script = replaced(std::string(bash_script), "@name@", program.name);
  script = replaced(script, "@values@", bash_values(program));
  return replaced(script, "@words@", bash_words(program));
}

std::string zsh_completion(const CommandDescription& program) {
  return fmt::format(
      "#compdef {0}\n# Completes the command line of {0} in zsh. Written by {0}, when it was "
      "built.\n\n{1}_{0} \"$@\"\n",
      program.name, zsh_function(program));
}

}  // namespace pipesim
