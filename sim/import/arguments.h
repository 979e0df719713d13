// A command's --arguments with their values, and which of them have not been read.
//
// Owns the words. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/import/shell_words.h"

namespace pipesim {

class Arguments {
 public:
  struct Argument {
    std::string name;  // "--num-layers"
    ShellWords values;
    int line = 0;
    bool is_used = false;
  };

  // "--name value" or "--name=value"; words before the first are ignored.
  Arguments(const ShellWords& words, const std::string& file);

  // The last of that name, the one that counts.
  const Argument* find(std::string_view name);
  bool has(std::string_view name) { return find(name) != nullptr; }
  // For a switch, which takes no value: throws if a variable without a value follows it, which may
  // hold arguments.
  bool is_set(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least = 1);
  std::int64_t integer_or(std::string_view name, std::int64_t fallback, std::int64_t least = 1) {
    return integer(name, least).value_or(fallback);
  }
  std::optional<double> number(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  // All its values.
  std::vector<std::string> texts(std::string_view name);

  [[noreturn]] void fail(std::string_view name, std::string_view rule) const;

  static std::string text_of(const Argument& argument);
  const std::vector<Argument>& all() const { return all_; }

 private:
  [[noreturn]] void refuse_unknown(const ShellWord& word) const;
  // Throws if the word contains a variable without a value.
  std::string value_of(const Argument& argument, const ShellWord& word) const;

  std::string file_;
  std::vector<Argument> all_;
};

}  // namespace pipesim
