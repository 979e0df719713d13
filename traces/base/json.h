// JSON output: values built in order, and their text.
//
// json_reader.h reads JSON, with positions. Plain values; any thread.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipesim {

// A vector, an array or the like, but not a string.
template <typename List>
concept Listed = !std::convertible_to<List, std::string_view> && requires(const List& list) {
  list.begin();
  list.end();
  list.data();
};

class Json {
 public:
  // Null, which becomes a list or an object when used as one.
  Json() = default;
  Json(std::nullptr_t) {}
  Json(std::string text) : type_(Type::text), text_(std::move(text)) {}
  Json(std::string_view text) : type_(Type::text), text_(text) {}
  Json(const char* text) : type_(Type::text), text_(text) {}
  Json(std::integral auto value) : Json(Type::verbatim, text_of(value)) {}
  Json(double value);
  Json(float value) : Json(double{value}) {}
  // The value, or null.
  template <typename T>
  Json(const std::optional<T>& value) {
    if (value) *this = Json(*value);
  }
  // A list of the elements of a vector, array or the like.
  Json(const Listed auto& list) : type_(Type::list), items_(list.begin(), list.end()) {}
  // An object if every item is a pair of a text and a value, else a list.
  Json(std::initializer_list<Json> items);

  static Json array() { return Json(Type::list, {}); }
  static Json object() { return Json(Type::object, {}); }
  // Text that is JSON already, written as it is.
  static Json verbatim(std::string text) { return Json(Type::verbatim, std::move(text)); }

  // The member of an object or null, appended as null if missing.
  Json& operator[](std::string_view key);
  // Appends a member to an object, which has none of that name: for many, which need no search.
  void add(std::string_view key, Json value);
  // Appends to a list; null becomes one.
  Json& operator[](std::size_t index) { return items_[index]; }
  Json& back() { return items_.back(); }
  std::size_t size() const { return items_.size(); }
  void push_back(Json item);
  // The same for an item that does not change any more: it is kept as text, in a sixth of the
  // memory. For lists as long as there are ranks.
  void append(const Json& item);

  // On one line, or on lines indented by `indent` a level. Numbers with a fraction
  // print in the shortest form that reads back exactly; non-finite numbers as null;
  // invalid UTF-8 as U+FFFD.
  std::string dump(int indent = -1) const;

 private:
  enum class Type : std::uint8_t { null, text, verbatim, compact, list, object };

  static std::string text_of(bool value) { return value ? "true" : "false"; }
  static std::string text_of(std::integral auto value) { return std::to_string(value); }

  Json(Type type, std::string text) : type_(type), text_(std::move(text)) {}
  bool is_member() const;
  void put(std::string& out, int indent, int depth) const;

  Type type_ = Type::null;
  std::string text_;               // of a text, raw JSON, or JSON without blanks
  std::vector<std::string> keys_;  // of an object, one per item
  std::vector<Json> items_;
};

// As in JSON, between quotes.
std::string quoted_json(std::string_view text);

}  // namespace pipesim
