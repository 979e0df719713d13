#include "traces/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>

#include "traces/base/utf8.h"

namespace pipesim {
namespace {

void break_line(std::string& out, int indent, int depth) {
  if (indent < 0) return;
  out += '\n';
  out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(depth), ' ');
}

// Breaks JSON without blanks into lines, as Json::put() does.
void put_in_lines(std::string& out, std::string_view compact, int indent, int depth) {
  for (std::size_t i = 0; i < compact.size(); ++i) {
    const char c = compact[i];
    if (c == '"') {
      const std::size_t begin = i++;
      for (; compact[i] != '"'; ++i) i += compact[i] == '\\' ? 1 : 0;
      out += compact.substr(begin, i + 1 - begin);
      continue;
    }
    const bool opens = c == '{' || c == '[';
    const bool closes = c == '}' || c == ']';
    const bool is_empty = closes && (compact[i - 1] == '{' || compact[i - 1] == '[');
    if (closes && !is_empty) break_line(out, indent, --depth);
    if (is_empty) --depth;
    out += c;
    if (c == ':') out += ' ';
    if (opens) ++depth;
    if (c == ',' || (opens && compact[i + 1] != '}' && compact[i + 1] != ']')) {
      break_line(out, indent, depth);
    }
  }
}

// A whole number keeps a fraction, by which readers tell its type.
std::string text_of_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::string text = fmt::format("{}", value);
  constexpr double large = 1e15;  // from here on the integer has more digits than are exact
  if (std::abs(value) >= large) {
    std::array<char, 32> shortest;
    const auto written =
        std::to_chars(shortest.begin(), shortest.end(), value, std::chars_format::scientific);
    text.assign(shortest.data(), written.ptr);
  }
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void put_escaped(std::string& out, char c) {
  switch (c) {
    case '"': out += "\\\""; break;
    case '\\': out += "\\\\"; break;
    case '\b': out += "\\b"; break;
    case '\f': out += "\\f"; break;
    case '\n': out += "\\n"; break;
    case '\r': out += "\\r"; break;
    case '\t': out += "\\t"; break;
    default:
      if (c >= 0 && c < ' ') {
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<int>(c));
      } else {
        out += c;
      }
  }
}

}  // namespace

Json::Json(double value) : Json(Type::verbatim, text_of_number(value)) {}

Json::Json(std::initializer_list<Json> items) : type_(Type::list) {
  if (!std::ranges::all_of(items, &Json::is_member)) {
    items_ = items;
    return;
  }
  type_ = Type::object;
  for (const Json& item : items) {
    keys_.push_back(item.items_[0].text_);
    items_.push_back(item.items_[1]);
  }
}

bool Json::is_member() const {
  return type_ == Type::list && items_.size() == 2 && items_[0].type_ == Type::text;
}

Json& Json::operator[](std::string_view key) {
  if (type_ == Type::null) type_ = Type::object;
  assert(type_ == Type::object);
  const auto found = std::ranges::find(keys_, key);
  if (found != keys_.end()) return items_[static_cast<std::size_t>(found - keys_.begin())];
  keys_.emplace_back(key);
  return items_.emplace_back();
}

void Json::add(std::string_view key, Json value) {
  assert(type_ == Type::object);
  keys_.emplace_back(key);
  items_.push_back(std::move(value));
}

void Json::push_back(Json item) {
  if (type_ == Type::null) type_ = Type::list;
  assert(type_ == Type::list);
  items_.push_back(std::move(item));
}

void Json::append(const Json& item) {
  std::string compact = item.dump();
  compact.shrink_to_fit();
  push_back(Json(Type::compact, std::move(compact)));
}

void Json::put(std::string& out, int indent, int depth) const {
  switch (type_) {
    case Type::null: out += "null"; return;
    case Type::text: out += quoted_json(text_); return;
    case Type::verbatim: out += text_; return;
    case Type::compact:
      if (indent < 0) {
        out += text_;
      } else {
        put_in_lines(out, text_, indent, depth);
      }
      return;
    case Type::list:
    case Type::object: break;
  }
  const bool is_object = type_ == Type::object;
  out += is_object ? '{' : '[';
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (i > 0) out += ',';
    break_line(out, indent, depth + 1);
    if (is_object) out += quoted_json(keys_[i]) + (indent < 0 ? ":" : ": ");
    items_[i].put(out, indent, depth + 1);
  }
  if (!items_.empty()) break_line(out, indent, depth);
  out += is_object ? '}' : ']';
}

std::string Json::dump(int indent) const {
  std::string out;
  put(out, indent, 0);
  return out;
}

std::string quoted_json(std::string_view text) {
  const bool is_plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (is_plain) return '"' + std::string(text) + '"';
  std::string out = "\"";
  for (const char c : valid_utf8(text)) put_escaped(out, c);
  return out + '"';
}

}  // namespace pipesim
