#include "sim/import/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/base/text.h"

namespace pipesim {

Settings::Settings(const JsonCursor& root) : root_(root) { collect(root.value(), ""); }

void Settings::collect(const JsonValue& value, const std::string& path) {
  const auto* object = value.get_if<JsonValue::Object>();
  if (object == nullptr) {
    leaves_.push_back({path, &value});
    return;
  }
  for (const auto& [key, child] : *object) {
    collect(child, path.empty() ? key : path + "." + key);
  }
}

std::optional<JsonCursor> Settings::find(std::string_view path) {
  used_.emplace(path);
  const auto leaf = std::ranges::find(leaves_, path, &Leaf::path);
  if (leaf == leaves_.end() || leaf->value->is_null()) return std::nullopt;
  return JsonCursor(*leaf->value, root_.file(), leaf->path);
}

std::int64_t Settings::integer_or(std::string_view path, std::int64_t fallback, std::int64_t least,
                                  std::int64_t most) {
  const auto value = find(path);
  return value ? value->rounded(least, most) : fallback;
}

bool Settings::boolean_or(std::string_view path, bool fallback) {
  const auto value = find(path);
  return value ? value->boolean() : fallback;
}

std::string Settings::text_or(std::string_view path, std::string_view fallback) {
  const auto value = find(path);
  return value ? value->string() : std::string(fallback);
}

std::string Settings::text_of(std::string_view path, const JsonValue& value) {
  constexpr std::size_t most = 40;
  std::string text = printable(json_text(value));
  if (text.size() > most) text = text.substr(0, most - 3) + "...";
  return fmt::format("{} = {}", printable(path), text);
}

std::string Settings::text_of(std::string_view path) {
  const auto value = find(path);
  return value ? text_of(path, value->value()) : std::string(path);
}

std::vector<Settings::Leaf> Settings::rest() const {
  std::vector<Leaf> rest;
  for (const Leaf& leaf : leaves_) {
    if (!used_.contains(leaf.path) && !leaf.value->is_null()) rest.push_back(leaf);
  }
  return rest;
}

}  // namespace pipesim
