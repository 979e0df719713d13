// JSON configuration read strictly, with the position of every value.
//
// For costs, models and clusters: small documents whose errors must be
// located ("costs.json:4:7: stages[1].forward_ns: ..."). Traces of millions
// of events have a streaming reader of their own. Values own what they hold;
// reading is const and may be done from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace pipesim {

class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Member = std::pair<std::string, JsonValue>;
  using Object = std::vector<Member>;  // as written, no duplicate keys
  using Data = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object>;

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(data); }
  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&data);
  }

  Data data = nullptr;
  int line = 0;
  int column = 0;
};

// Parses one document. Syntax errors, duplicate keys, invalid UTF-8, nesting
// beyond 64 levels and anything after the value are input errors that name
// `file`, line and column.
JsonValue parse_json(std::string_view text, const std::string& file);

// The value as JSON on one line.
std::string json_text(const JsonValue& value);

// A cursor on one value of a document, which knows its file and its path, so
// that every error can name both. Cheap to copy; refers to the document.
class JsonCursor {
 public:
  JsonCursor(const JsonValue& value, const std::string& file, std::string path = {})
      : value_(&value), file_(&file), path_(std::move(path)) {}

  bool is_null() const { return value_->is_null(); }
  bool is_array() const { return value_->get_if<JsonValue::Array>() != nullptr; }

  // A whole number in [least, most].
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  // Any number, rounded to the nearest whole, in [least, most].
  std::int64_t rounded(std::int64_t least, std::int64_t most) const;
  double number() const;
  // A fraction in [0, most], in millionths, rounded to the nearest.
  std::int64_t millionths(std::int64_t most) const;
  const std::string& string() const;
  bool boolean() const;
  std::vector<JsonCursor> array() const;

  [[noreturn]] void fail(std::string_view rule) const;
  // "cluster.json:4:7: node.p2p_latency", where an error begins.
  std::string place() const;
  const JsonValue& value() const { return *value_; }
  const std::string& file() const { return *file_; }
  const std::string& path() const { return path_; }

 private:
  const JsonValue* value_;
  const std::string* file_;
  std::string path_;
};

// The members of an object, read by name; finish() refuses every member
// that was not read.
class JsonMembers {
 public:
  explicit JsonMembers(const JsonCursor& object);

  bool has(std::string_view key) const;
  JsonCursor required(std::string_view key);
  // The member or, if absent, `fallback`.
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t least,
                          std::int64_t most);
  bool boolean_or(std::string_view key, bool fallback);
  // Requires `format` to be that name, or what it was called before, and `version` that number.
  void format(std::string_view name, std::int64_t version, std::string_view old_name = {});
  // Calls `use` with the member if present.
  template <typename Use>
  void optional(std::string_view key, Use use) {
    known_.emplace(key);
    if (has(key)) use(child(key));
  }
  void finish() const;

 private:
  JsonCursor child(std::string_view key) const;

  JsonCursor object_;
  std::map<std::string_view, const JsonValue*> members_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace pipesim
