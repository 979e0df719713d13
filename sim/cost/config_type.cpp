#include "sim/cost/config_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sim/cost/model_presets.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

const std::string& types_file() {
  static const std::string file = "hugging_face_types.json";
  return file;
}

const JsonValue& types_document() {
  static const JsonValue document = parse_json(hugging_face_types(), types_file());
  return document;
}

JsonCursor cursor_at(const JsonValue& value, std::string_view path) {
  return {value, types_file(), std::string(path)};
}

const JsonValue* member_of(const JsonValue& value, std::string_view key) {
  const auto* object = value.get_if<JsonValue::Object>();
  if (object == nullptr) return nullptr;
  const auto found = std::ranges::find(*object, key, &JsonValue::Member::first);
  return found == object->end() ? nullptr : &found->second;
}

bool is_row(std::string_view key) {
  return key != "usual" && key != "refused" && key != "without_effect";
}

std::vector<std::string> architectures_of(const JsonCursor& root) {
  const JsonValue* list = member_at(root.value(), "architectures");
  if (list == nullptr || list->is_null()) return {};
  std::vector<std::string> all;
  for (const JsonCursor& one : JsonCursor(*list, root.file(), "architectures").array()) {
    all.push_back(one.string());
  }
  return all;
}

[[noreturn]] void refuse_type(const JsonCursor& at, const std::string& type) {
  if (const auto why = ConfigType::refusal_of(type)) {
    at.fail(
        fmt::format("{} {}, which is not modelled; describe its layers in a pipesim-model "
                    "(traces/FORMAT.md)",
                    quote(type), *why));
  }
  constexpr std::size_t most = 6;
  std::vector<std::string> known = nearest_first(type, ConfigType::names());
  const std::size_t all = known.size();
  known.resize(most);
  at.fail(fmt::format("{} and {} more; or describe it as a pipesim-model (traces/FORMAT.md)",
                      unknown_name("model type", type, known), all - most));
}

}  // namespace

const JsonValue* member_at(const JsonValue& value, std::string_view path) {
  const JsonValue* at = &value;
  for (const std::string_view part : split(path, '.')) {
    at = member_of(*at, part);
    if (at == nullptr) return nullptr;
  }
  return at;
}

bool is_given(const JsonValue& document, std::string_view key) {
  const JsonValue* value = member_at(document, key);
  return value != nullptr && !value->is_null();
}

std::vector<std::string> strings_of(const JsonCursor& value) {
  if (!value.is_array()) return {value.string()};
  std::vector<std::string> all;
  for (const JsonCursor& one : value.array()) all.push_back(one.string());
  return all;
}

std::optional<ConfigType> ConfigType::find(std::string_view name) {
  if (!is_row(name)) return std::nullopt;
  ConfigType type(name);
  const JsonValue* row = member_of(types_document(), name);
  if (row == nullptr) return std::nullopt;
  while (row != nullptr) {
    type.rows_.push_back(row);
    const JsonValue* like = member_of(*row, "like");
    row = like == nullptr ? nullptr : member_of(types_document(), *like->get_if<std::string>());
  }
  type.rows_.push_back(member_of(types_document(), "usual"));
  return type;
}

// By `model_type`, or else `architectures`.
ConfigType ConfigType::of(const JsonCursor& root, std::string_view usual,
                          std::vector<std::string>* notes) {
  const std::vector<std::string> architectures = architectures_of(root);
  const auto names_class = [&](const ConfigType& type) {
    const auto name = type.setting("class");
    return name && std::ranges::find(architectures, name->string()) != architectures.end();
  };
  std::string named(usual);
  if (is_given(root.value(), "model_type")) {
    const JsonCursor value(*member_at(root.value(), "model_type"), root.file(),
                           root.path().empty() ? "model_type" : root.path() + ".model_type");
    named = value.string();
    if (!ConfigType::find(named)) refuse_type(value, named);
  }
  if (named.empty()) {
    for (const std::string& name : ConfigType::names()) {
      if (names_class(*ConfigType::find(name))) return *ConfigType::find(name);
    }
    root.fail(fmt::format("{}; give it a model_type",
                          architectures.empty()
                              ? "neither model_type nor architectures says what it is"
                              : fmt::format("architectures: {} is none of those that are read",
                                            quote(architectures.front()))));
  }
  ConfigType type = *ConfigType::find(named);
  const auto own = type.setting("class");
  if (notes != nullptr && own && !architectures.empty() && !names_class(type)) {
    notes->push_back(fmt::format("{}: architectures: {} is taken for {}, with its head",
                                 printable(root.file()), printable(architectures.front()),
                                 own->string()));
  }
  return type;
}

std::vector<std::string> ConfigType::names() {
  std::vector<std::string> all;
  for (const auto& [name, row] : *types_document().get_if<JsonValue::Object>()) {
    if (is_row(name)) all.push_back(name);
  }
  return all;
}

std::optional<std::string> ConfigType::refusal_of(std::string_view name) {
  const JsonValue& refused = *member_of(types_document(), "refused");
  for (const auto& [why, types] : *refused.get_if<JsonValue::Object>()) {
    const std::vector<std::string> all = strings_of(cursor_at(types, "refused"));
    if (std::ranges::find(all, name) != all.end()) return why;
  }
  return std::nullopt;
}

std::vector<std::string> ConfigType::keys_without_effect() {
  return strings_of(cursor_at(*member_of(types_document(), "without_effect"), "without_effect"));
}

std::optional<JsonCursor> ConfigType::nearest(std::string_view object, std::string_view key) const {
  for (const JsonValue* row : rows_) {
    const JsonValue* of = object.empty() ? row : member_of(*row, object);
    const JsonValue* found = of == nullptr ? nullptr : member_of(*of, key);
    if (found == nullptr) continue;
    if (found->is_null()) return std::nullopt;
    return cursor_at(*found, key);
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, JsonCursor>> ConfigType::members(std::string_view object) const {
  std::vector<std::pair<std::string, JsonCursor>> all;
  for (const JsonValue* row : rows_) {
    const JsonValue* of = member_of(*row, object);
    if (of == nullptr) continue;
    for (const auto& [key, value] : *of->get_if<JsonValue::Object>()) {
      all.emplace_back(key, cursor_at(value, key));
    }
  }
  return all;
}

}  // namespace pipesim
