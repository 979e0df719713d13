#include "traces/command/description.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "traces/base/text.h"

namespace pipesim {
namespace {

// Placeholders are in capitals, and examples have other characters.
bool is_value(std::string_view alternative) {
  return !alternative.empty() && std::ranges::all_of(alternative, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

std::vector<std::string> values_in(const std::string& type) {
  std::vector<std::string> values;
  const std::vector<std::string_view> alternatives = split(type, '|');
  if (alternatives.size() < 2) return values;
  for (const std::string_view alternative : alternatives) {
    if (is_value(alternative)) values.emplace_back(alternative);
  }
  return values;
}

Paths paths_of(const std::string& type) {
  const auto has = [&](const char* word) { return type.find(word) != std::string::npos; };
  if (has("FILE") || has("TRACE") || has("RUNS")) return Paths::files;
  return has("DIR") || has("FOLDER") ? Paths::folders : Paths::none;
}

}  // namespace pipesim
