#include "traces/base/json_reader.h"

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "traces/base/error.h"
#include "traces/base/json.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::size_t deepest = 64;

// Builds JsonValues from RapidJSON's events. `stream` has the reader's position, from which the
// start of the token just read follows.
class Builder {
 public:
  Builder(std::string_view text, const rapidjson::MemoryStream& stream)
      : text_(text), stream_(&stream) {}

  JsonValue take_root() { return std::move(root_); }
  const std::string& complaint() const { return complaint_; }
  std::pair<int, int> position() const { return {line_, column_}; }

  // Moves to an absolute offset, which never decreases.
  void locate(std::size_t offset) {
    for (; at_ < offset && at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') {
        ++line_;
        column_ = 1;
      } else {
        ++column_;
      }
    }
  }

  bool Null() { return add(nullptr, 4); }
  bool Bool(bool value) { return add(value, value ? 4 : 5); }
  // Numbers come as text: RapidJSON's own conversion computes a logarithm of 0.
  bool RawNumber(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    const std::string_view number(text, length);
    std::int64_t whole = 0;
    if (read_whole(number, whole)) return add(whole, length);
    double real = 0;
    if (std::from_chars(text, text + length, real).ec == std::errc()) return add(real, length);
    locate(stream_->Tell() - length);
    complaint_ = fmt::format("{} is out of range", quote(number));
    return false;
  }
  bool Int(int /*value*/) { return false; }  // not called: the flags ask for text
  bool Uint(unsigned /*value*/) { return false; }
  bool Int64(std::int64_t /*value*/) { return false; }
  bool Uint64(std::uint64_t /*value*/) { return false; }
  bool Double(double /*value*/) { return false; }
  bool String(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    locate(string_start());
    return place(std::string(text, length));
  }
  bool Key(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    locate(string_start());
    keys_.back() = {std::string(text, length), {line_, column_}};
    return true;
  }
  bool StartObject() { return open(JsonValue::Object{}); }
  bool StartArray() { return open(JsonValue::Array{}); }
  bool EndObject(rapidjson::SizeType /*members*/) {
    auto& members = std::get<JsonValue::Object>(open_.back().data);
    std::vector<const JsonValue::Member*> sorted;
    sorted.reserve(members.size());
    for (const auto& member : members) sorted.push_back(&member);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto* a, const auto* b) { return a->first < b->first; });
    const auto twice =
        std::adjacent_find(sorted.begin(), sorted.end(),
                           [](const auto* a, const auto* b) { return a->first == b->first; });
    if (twice != sorted.end()) {
      const JsonValue& second = (*(twice + 1))->second;
      line_ = second.line;
      column_ = second.column;
      complaint_ = fmt::format("key {} is given twice; keep one", quote((*twice)->first));
      return false;
    }
    return close();
  }
  bool EndArray(rapidjson::SizeType /*items*/) { return close(); }

 private:
  static bool read_whole(std::string_view number, std::int64_t& value) {
    const auto [end, status] = std::from_chars(number.data(), number.data() + number.size(), value);
    return status == std::errc() && end == number.data() + number.size();
  }
  // The opening quote: the nearest one before the closing quote that an even
  // number of backslashes precedes.
  std::size_t string_start() const {
    std::size_t quote = stream_->Tell() - 1;
    while (quote > 0) {
      --quote;
      if (text_[quote] != '"') continue;
      std::size_t slashes = 0;
      while (slashes < quote && text_[quote - 1 - slashes] == '\\') ++slashes;
      if (slashes % 2 == 0) break;
    }
    return quote;
  }
  bool add(JsonValue::Data data, std::size_t length) {
    locate(stream_->Tell() - length);
    return place(std::move(data));
  }
  bool open(JsonValue::Data data) {
    locate(stream_->Tell());  // the iterative reader has not passed the bracket yet
    if (open_.size() == deepest) {
      complaint_ = fmt::format("nested deeper than {} levels", deepest);
      return false;
    }
    open_.push_back({std::move(data), line_, column_});
    keys_.emplace_back();
    return true;
  }
  bool close() {
    JsonValue value = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return attach(std::move(value));
  }
  bool place(JsonValue::Data data) { return attach({std::move(data), line_, column_}); }
  bool attach(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* array = std::get_if<JsonValue::Array>(&open_.back().data)) {
      array->push_back(std::move(value));
    } else {
      std::get<JsonValue::Object>(open_.back().data)
          .emplace_back(std::move(keys_.back().name), std::move(value));
    }
    return true;
  }

  struct PendingKey {
    std::string name;
    std::pair<int, int> position;
  };

  std::string_view text_;
  const rapidjson::MemoryStream* stream_;
  std::size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
  JsonValue root_;
  std::vector<JsonValue> open_;
  std::vector<PendingKey> keys_;
  std::string complaint_;
};

Json json_of(const JsonValue& value) {
  if (const auto* flag = value.get_if<bool>()) return *flag;
  if (const auto* number = value.get_if<std::int64_t>()) return *number;
  if (const auto* number = value.get_if<double>()) return *number;
  if (const auto* text = value.get_if<std::string>()) return *text;
  if (const auto* items = value.get_if<JsonValue::Array>()) {
    Json list = Json::array();
    for (const JsonValue& item : *items) list.push_back(json_of(item));
    return list;
  }
  if (const auto* members = value.get_if<JsonValue::Object>()) {
    Json object = Json::object();
    for (const auto& [key, member] : *members) object.add(key, json_of(member));
    return object;
  }
  return nullptr;
}

}  // namespace

std::string json_text(const JsonValue& value) { return json_of(value).dump(); }

JsonValue parse_json(std::string_view text, const std::string& file) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  rapidjson::MemoryStream stream(text.data(), text.size());
  Builder builder(text, stream);
  const auto fail = [&](std::size_t offset, std::string_view rule) {
    builder.locate(offset);
    const auto [line, column] = builder.position();
    return input_error(fmt::format("{}:{}:{}: {}", file, line, column, rule));
  };
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw fail(zero, "a zero byte; this is not a JSON text");
  }
  rapidjson::Reader reader;
  constexpr unsigned flags = rapidjson::kParseIterativeFlag |
                             rapidjson::kParseValidateEncodingFlag |
                             rapidjson::kParseNumbersAsStringsFlag;
  if (reader.Parse<flags>(stream, builder).IsError()) {
    if (!builder.complaint().empty()) throw fail(0, builder.complaint());
    throw fail(
        reader.GetErrorOffset(),
        fmt::format("not JSON: {}", rapidjson::GetParseError_En(reader.GetParseErrorCode())));
  }
  return builder.take_root();
}

void JsonCursor::fail(std::string_view rule) const {
  throw input_error(fmt::format("{}: {}", place(), rule));
}

std::string JsonCursor::place() const {
  return fmt::format("{}:{}:{}{}{}", *file_, value_->line, value_->column,
                     path_.empty() ? "" : ": ", path_);
}

double JsonCursor::number() const {
  if (const auto* whole = value_->get_if<std::int64_t>()) return static_cast<double>(*whole);
  const double* real = value_->get_if<double>();
  if (real == nullptr) fail("must be a number");
  return *real;
}

std::int64_t JsonCursor::integer(std::int64_t least, std::int64_t most) const {
  const double* real = value_->get_if<double>();
  if (real != nullptr && std::abs(*real) < 9e15 && *real != std::floor(*real)) {
    fail(fmt::format("{} is not a whole number", *real));
  }
  return rounded(least, most);
}

std::int64_t JsonCursor::millionths(std::int64_t most) const {
  const double value = number();
  if (!(value >= 0 && value <= static_cast<double>(most))) {
    fail(fmt::format("{} is out of range: it must lie between 0 and {}", value, most));
  }
  return std::llround(value * 1e6);
}

std::int64_t JsonCursor::rounded(std::int64_t least, std::int64_t most) const {
  const std::string range = fmt::format("it must lie between {} and {}", least, most);
  if (const auto* whole = value_->get_if<std::int64_t>()) {
    if (*whole < least || *whole > most) fail(fmt::format("{} is out of range: {}", *whole, range));
    return *whole;
  }
  const double* real = value_->get_if<double>();
  if (real == nullptr) fail("must be a number");
  if (!(*real >= static_cast<double>(least) && *real <= static_cast<double>(most))) {
    fail(fmt::format("{} is out of range: {}", *real, range));
  }
  return std::clamp(static_cast<std::int64_t>(std::llround(*real)), least, most);
}

const std::string& JsonCursor::string() const {
  const auto* text = value_->get_if<std::string>();
  if (text == nullptr) fail("must be a string");
  return *text;
}

bool JsonCursor::boolean() const {
  const auto* value = value_->get_if<bool>();
  if (value == nullptr) fail("must be true or false");
  return *value;
}

std::vector<JsonCursor> JsonCursor::array() const {
  const auto* items = value_->get_if<JsonValue::Array>();
  if (items == nullptr) fail("must be a list");
  std::vector<JsonCursor> cursors;
  cursors.reserve(items->size());
  for (std::size_t i = 0; i < items->size(); ++i) {
    cursors.emplace_back((*items)[i], *file_, fmt::format("{}[{}]", path_, i));
  }
  return cursors;
}

JsonMembers::JsonMembers(const JsonCursor& object) : object_(object) {
  const auto* members = object.value().get_if<JsonValue::Object>();
  if (members == nullptr) object.fail("must be an object");
  for (const auto& [key, value] : *members) members_.emplace(key, &value);
}

bool JsonMembers::has(std::string_view key) const { return members_.contains(key); }

JsonCursor JsonMembers::child(std::string_view key) const {
  const std::string& parent = object_.path();
  return {*members_.at(key), object_.file(),
          parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key)};
}

JsonCursor JsonMembers::required(std::string_view key) {
  known_.emplace(key);
  if (!has(key)) object_.fail(fmt::format("key {} is missing", quote(key)));
  return child(key);
}

std::int64_t JsonMembers::integer_or(std::string_view key, std::int64_t fallback,
                                     std::int64_t least, std::int64_t most) {
  optional(key, [&](const JsonCursor& value) { fallback = value.integer(least, most); });
  return fallback;
}

bool JsonMembers::boolean_or(std::string_view key, bool fallback) {
  optional(key, [&](const JsonCursor& value) { fallback = value.boolean(); });
  return fallback;
}

void JsonMembers::format(std::string_view name, std::int64_t version, std::string_view old_name) {
  const JsonCursor given = required("format");
  if (given.string() != name && (old_name.empty() || given.string() != old_name)) {
    given.fail(fmt::format("{} is not '{}'", quote(given.string()), name));
  }
  const JsonCursor number = required("version");
  if (number.integer(0, max_count) != version) {
    number.fail(fmt::format("this program reads version {}", version));
  }
}

void JsonMembers::finish() const {
  for (const auto& [key, value] : *object_.value().get_if<JsonValue::Object>()) {
    if (known_.contains(key)) continue;
    const JsonCursor cursor(value, object_.file(), object_.path());
    cursor.fail(unknown_name("key", key, {known_.begin(), known_.end()}));
  }
}

}  // namespace pipesim
