#include "sim/import/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// A variable's name as written in a script, or a command instead.
std::string variable_text(const std::string& unknown) {
  const bool is_command = unknown.starts_with('$') || unknown.starts_with('`');
  return printable(is_command ? unknown : "$" + unknown);
}

// Whether a word is unknown, and not a value of the argument before it.
bool may_hold_arguments(const ShellWord& word, const Arguments::Argument* before) {
  if (word.unknown.empty() || !word.text.starts_with('$')) return false;
  const bool is_list = word.unknown == "@" || word.unknown == "*" || word.text.ends_with("[@]}") ||
                       word.text.ends_with("[*]}");
  if (is_list || before == nullptr) return true;
  const bool takes_several = before->name.ends_with("-data-path") || before->name == "--data-path";
  return !before->values.empty() && !takes_several;
}

}  // namespace

Arguments::Arguments(const ShellWords& words, const std::string& file) : file_(file) {
  for (const ShellWord& word : words) {
    if (word.text.starts_with("--") && word.text.size() > 2) {
      const std::size_t equals = word.text.find('=');
      Argument& argument = all_.emplace_back();
      argument.name = word.text.substr(0, equals);
      argument.line = word.line;
      if (equals != std::string::npos) {
        ShellWord value = word;
        value.text = word.text.substr(equals + 1);
        argument.values.push_back(std::move(value));
      }
    } else if (may_hold_arguments(word, all_.empty() ? nullptr : &all_.back())) {
      refuse_unknown(word);
    } else if (!all_.empty() && !(word.text.ends_with(".py") && !all_.back().values.empty())) {
      // What the launcher starts is no value of its own arguments.
      all_.back().values.push_back(word);
    }
  }
}

void Arguments::refuse_unknown(const ShellWord& word) const {
  throw input_error(
      fmt::format("{}:{}: {} has no value here, and may hold arguments; give it one in the file",
                  printable(file_), word.line, variable_text(word.unknown)));
}

bool Arguments::is_set(std::string_view name) {
  const Argument* argument = find(name);
  if (argument == nullptr) return false;
  for (const ShellWord& word : argument->values) {
    if (!word.unknown.empty() && word.text.starts_with('$')) refuse_unknown(word);
  }
  return true;
}

const Arguments::Argument* Arguments::find(std::string_view name) {
  Argument* found = nullptr;
  for (Argument& argument : all_) {
    if (argument.name != name) continue;
    argument.is_used = true;
    found = &argument;
  }
  return found;
}

void Arguments::fail(std::string_view name, std::string_view rule) const {
  int line = 0;
  for (const Argument& argument : all_) {
    if (argument.name == name) line = argument.line;
  }
  const std::string place =
      line == 0 ? printable(file_) : fmt::format("{}:{}", printable(file_), line);
  throw input_error(fmt::format("{}: {}: {}", place, name, rule));
}

std::string Arguments::value_of(const Argument& argument, const ShellWord& word) const {
  if (word.unknown.empty()) return word.text;
  fail(argument.name,
       fmt::format("{} has no value in the file; give it one", variable_text(word.unknown)));
}

std::optional<std::string> Arguments::text(std::string_view name) {
  const Argument* argument = find(name);
  if (argument == nullptr) return std::nullopt;
  if (argument->values.empty()) fail(name, "its value is missing");
  return value_of(*argument, argument->values.front());
}

std::vector<std::string> Arguments::texts(std::string_view name) {
  std::vector<std::string> texts;
  if (const Argument* argument = find(name)) {
    for (const ShellWord& word : argument->values) texts.push_back(value_of(*argument, word));
  }
  return texts;
}

std::optional<std::int64_t> Arguments::integer(std::string_view name, std::int64_t least) {
  constexpr std::int64_t most = 1'000'000'000;
  const auto given = text(name);
  if (!given) return std::nullopt;
  std::int64_t value = 0;
  const char* const end = given->data() + given->size();
  const auto [at, fault] = std::from_chars(given->data(), end, value);
  if (fault != std::errc() || at != end || value < least || value > most) {
    fail(name, fmt::format("{} is not a whole number from {} to {}", quote(*given), least, most));
  }
  return value;
}

std::optional<double> Arguments::number(std::string_view name) {
  const auto given = text(name);
  if (!given) return std::nullopt;
  double value = 0;
  const char* const end = given->data() + given->size();
  const auto [at, fault] = std::from_chars(given->data(), end, value);
  if (fault != std::errc() || at != end || !(value >= 0 && value < 1e15)) {
    fail(name, fmt::format("{} is not a number", quote(*given)));
  }
  return value;
}

std::string Arguments::text_of(const Argument& argument) {
  constexpr std::size_t most = 60;
  std::string text = argument.name;
  for (const ShellWord& word : argument.values) text += " " + word.text;
  text = printable(text);
  if (text.size() > most) text = text.substr(0, most - 3) + "...";
  return text;
}

}  // namespace pipesim
