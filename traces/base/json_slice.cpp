#include "traces/base/json_slice.h"

#include <charconv>

#include "traces/base/json_reader.h"

namespace pipesim {
namespace {

// The position after the closing quote of the string that begins there: the quote with an even
// number of backslashes before it.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (;;) {
    at = text.find('"', at + 1);
    std::size_t slashes = 0;
    while (text[at - 1 - slashes] == '\\') ++slashes;
    if (slashes % 2 == 0) return at + 1;
  }
}

}  // namespace

JsonSlice JsonSlice::value_at(std::size_t begin) const {
  std::size_t depth = 0;
  std::size_t at = begin;
  while (at < text_.size()) {
    const char c = text_[at];
    if (c == '"') {
      at = end_of_string(text_, at);
      continue;
    }
    const bool closes = c == '}' || c == ']';
    if (depth == 0 && (closes || c == ',')) break;
    if (closes) --depth;
    if (c == '{' || c == '[') ++depth;
    ++at;
  }
  return JsonSlice(text_.substr(begin, at - begin));
}

std::optional<std::string> JsonSlice::string() const {
  if (!text_.starts_with('"')) return std::nullopt;
  const std::string_view content = text_.substr(1, text_.size() - 2);
  if (content.find('\\') == std::string_view::npos) return std::string(content);
  return *parse_json(text_, {}).get_if<std::string>();
}

std::optional<std::int64_t> JsonSlice::whole() const {
  std::int64_t value = 0;
  const char* const last = text_.data() + text_.size();
  const auto [end, fault] = std::from_chars(text_.data(), last, value);
  return fault == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

std::optional<JsonSlice> JsonSlice::find(std::string_view key) const {
  std::optional<JsonSlice> found;
  if (!is_object()) return found;
  for (std::size_t at = 1; at + 1 < text_.size();) {
    const std::size_t colon = end_of_string(text_, at);
    const JsonSlice value = value_at(colon + 1);
    if (JsonSlice(text_.substr(at, colon - at)).string() == key) found = value;
    at = colon + 1 + value.text_.size() + 1;
  }
  return found;
}

std::optional<JsonSlice> JsonSlice::front() const {
  return is_list() && text_ != "[]" ? std::optional(value_at(1)) : std::nullopt;
}

}  // namespace pipesim
