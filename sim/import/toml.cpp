// The one source that includes toml++, whose headers are all of it here: Debian has no static
// library, and pipesim is linked statically.
#include "sim/import/toml.h"

#include <fmt/format.h>

#include <sstream>

#include "traces/base/error.h"
#include "traces/base/text.h"

// Version 3.3 asserts that a key begins like one, of any text, or, where NDEBUG is set, takes it
// for granted. Without either it says that in an error of its own.
#undef NDEBUG
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace pipesim {
namespace {

constexpr std::size_t longest_toml = 1 << 20;  // bytes
constexpr int deepest_table = 64;

[[noreturn]] void fail_in_toml(const std::string& file, const toml::source_region& source,
                               std::string_view rule) {
  throw input_error(fmt::format("{}:{}:{}: {}", printable(file), source.begin.line,
                                source.begin.column, printable(rule)));
}

JsonValue toml_value(const toml::node& node, const std::string& file, int depth) {
  JsonValue value;
  value.line = static_cast<int>(node.source().begin.line);
  value.column = static_cast<int>(node.source().begin.column);
  if (depth > deepest_table) fail_in_toml(file, node.source(), "tables nested too deep");
  if (const auto* table = node.as_table()) {
    JsonValue::Object object;
    for (const auto& [key, child] : *table) {
      object.emplace_back(std::string(key.str()), toml_value(child, file, depth + 1));
    }
    value.data = std::move(object);
  } else if (const auto* array = node.as_array()) {
    JsonValue::Array items;
    for (const toml::node& child : *array) items.push_back(toml_value(child, file, depth + 1));
    value.data = std::move(items);
  } else if (const auto* text = node.as_string()) {
    value.data = text->get();
  } else if (const auto* number = node.as_integer()) {
    value.data = std::int64_t{number->get()};
  } else if (const auto* real = node.as_floating_point()) {
    value.data = real->get();
  } else if (const auto* flag = node.as_boolean()) {
    value.data = flag->get();
  } else {
    std::ostringstream out;
    node.visit([&](const auto& other) {
      if constexpr (toml::is_date<decltype(other)> || toml::is_time<decltype(other)> ||
                    toml::is_date_time<decltype(other)>) {
        out << other.get();
      }
    });
    value.data = out.str();
  }
  return value;
}

}  // namespace

JsonValue parse_toml(std::string_view text, const std::string& file) {
  if (text.size() > longest_toml) {
    throw input_error(fmt::format("{}: more than {} of TOML", printable(file),
                                  format_bytes(static_cast<std::int64_t>(longest_toml))));
  }
  try {
    return toml_value(toml::parse(text, file), file, 0);
  } catch (const toml::parse_error& error) {
    fail_in_toml(file, error.source(), error.description());
  }
}

}  // namespace pipesim
